"""The programs: how each is started without a person, and which of its tools plays which part."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

MODULES = Path(__file__).parent / "node_modules"
PEERS = Path(__file__).parents[1] / "peers" / "ai_sdk"
SMALL = Path(__file__).parent / "small" / "node_modules"
"""The programs that CI tries, which need no other Node than the machine's."""
_ARCH = "arm64" if platform.machine() in {"aarch64", "arm64"} else "x64"
NODE = MODULES / f"node-linux-{_ARCH}" / "bin" / "node"
"""Node 22 from the registry: the programs want it, whatever the machine has."""
KEY = "any"
_NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a program is started with."""

    url: str
    """The proxy, or the upstream, without `/v1`."""
    model: str
    home: Path
    """Its home and configuration."""
    folder: Path
    """Where it works."""
    prompt: str


@dataclass(frozen=True)
class Launch:
    """A command line, and the variables that it needs beside those of every program."""

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program, and one protocol that it speaks."""

    protocol: str
    needs: Path
    """The file that says that it is installed."""
    launch: Callable[[Start], Launch]
    words: Mapping[str, str]
    """The names of its tools and parameters for those of the scenarios."""
    writes_by_shell: bool = False
    model: str = ""
    """The model that it must be started with; empty: any name will do."""

    @property
    def installed(self) -> bool:
        return self.needs.exists()


def make_environ(start: Start, more: Mapping[str, str]) -> dict[str, str]:
    """Return an environment from which nothing but loopback can be reached over a proxy."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(start.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        "DO_NOT_TRACK": "1",
        **more,
    }


def _words(shell: str, write: str, *, path: str) -> dict[str, str]:
    return {
        "get_weather": shell,
        "city": "command",
        "unit": "description",
        "send_email": write,
        "to": path,
        "body": "content",
        "write_file": write,
        "path": path,
    }


# ── Claude Code ─────────────────────────────────────────────────────────────────────

_CLAUDE = MODULES / "@anthropic-ai" / f"claude-code-linux-{_ARCH}" / "claude"


def _launch_claude(start: Start) -> Launch:
    command = (
        *(str(_CLAUDE), "-p", start.prompt, "--model", start.model, "--output-format", "json"),
        "--dangerously-skip-permissions",
    )
    return Launch(
        command,
        {
            "ANTHROPIC_BASE_URL": start.url,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": start.model,
            "CLAUDE_CONFIG_DIR": str(start.home / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
        },
    )


# ── Codex ───────────────────────────────────────────────────────────────────────────

_CODEX_VENDOR = SMALL / "@openai" / f"codex-linux-{_ARCH}" / "vendor"
_CODEX = next(_CODEX_VENDOR.glob("*/bin/codex"), _CODEX_VENDOR / "codex")
_CODEX_CONFIG = """\
model_provider = "wholecall"
check_for_update_on_startup = false
web_search = "disabled"

[analytics]
enabled = false

[model_providers.wholecall]
name = "Wholecall"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "WHOLECALL_KEY"
"""


_CODEX_SOCKETS = "supports_websockets = true\n"


def _launch_codex(start: Start, *, config: str = _CODEX_CONFIG) -> Launch:
    home = start.home / "codex"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(config.format(url=start.url), "utf-8")
    command = (
        *(str(_CODEX), "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"),
        *("--model", start.model, "--cd", str(start.folder), start.prompt),
    )
    return Launch(command, {"CODEX_HOME": str(home), "WHOLECALL_KEY": KEY})


_CODEX_WORDS = {
    "get_weather": "exec_command",
    "city": "cmd",
    "unit": "workdir",
    "C": ".",
    "send_email": "exec_command",
    "to": "workdir",
    "body": "cmd",
    "write_file": "exec_command",
    "path": "workdir",
    "content": "cmd",
}

# ── opencode ────────────────────────────────────────────────────────────────────────

_OPENCODE = MODULES / f"opencode-linux-{_ARCH}" / "bin" / "opencode"


def _launch_opencode(start: Start) -> Launch:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{start.url}/v1", "apiKey": KEY},
        "models": {start.model: {"limit": {"context": 100_000, "output": 8_000}}},
    }
    config = {
        "provider": {"wholecall": provider},
        "permission": "allow",
        "autoupdate": False,
        "share": "disabled",
        "small_model": f"wholecall/{start.model}",
    }
    command = (str(_OPENCODE), "run", "-m", f"wholecall/{start.model}", start.prompt)
    return Launch(
        command,
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            **{
                f"XDG_{kind}_HOME": str(start.home / kind)
                for kind in ("CONFIG", "DATA", "CACHE", "STATE")
            },
        },
    )


# ── qwen-code ───────────────────────────────────────────────────────────────────────

_QWEN = MODULES / "@qwen-code" / "qwen-code" / "cli-entry.js"
_QWEN_SETTINGS = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "openai"}},
}


def _launch_qwen(start: Start) -> Launch:
    settings = start.home / ".qwen" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(_QWEN_SETTINGS), "utf-8")
    command = (str(NODE), str(_QWEN), "-p", start.prompt, "-y", "-m", start.model)
    asked = {
        "OPENAI_BASE_URL": f"{start.url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": start.model,
    }
    return Launch(command, asked)


# ── pi ──────────────────────────────────────────────────────────────────────────────

_PI = SMALL / "@mariozechner" / "pi-coding-agent" / "dist" / "cli.js"


def _launch_pi(start: Start) -> Launch:
    home = start.home / "pi"
    home.mkdir(parents=True)
    model = {"id": start.model, "contextWindow": 100_000, "maxTokens": 8_000}
    provider = {
        "baseUrl": f"{start.url}/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "models": [model],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"wholecall": provider}}), "utf-8")
    command = (
        *("node", str(_PI), "-p", "--no-session", "--provider", "wholecall"),
        *("--model", start.model, start.prompt),
    )
    return Launch(command, {"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1"})


# ── AI SDK ──────────────────────────────────────────────────────────────────────────

_AI_SDK = Path(__file__).with_name("ai_sdk_agent.mjs")


def _launch_ai_sdk(start: Start, *, home: Path, client: str) -> Launch:
    command = (
        *(str(NODE), "--no-warnings", "--experimental-import-meta-resolve", str(_AI_SDK)),
        *(str(home / "package.json"), client, start.url, start.model, start.prompt),
    )
    return Launch(command, {"WHOLECALL_KEY": KEY})


def _ai_sdk(protocol: str, client: str, *, home: Path) -> Program:
    return Program(
        protocol=protocol,
        needs=home / "node_modules" / "ai",
        launch=partial(_launch_ai_sdk, home=home, client=client),
        words=_words("bash", "write", path="path"),
    )


PROGRAMS: dict[str, Program] = {
    "claude-code": Program(
        protocol="anthropic",
        needs=_CLAUDE,
        launch=_launch_claude,
        words=_words("Bash", "Write", path="file_path"),
    ),
    "codex": Program(
        protocol="openai-responses",
        needs=_CODEX,
        launch=_launch_codex,
        words=_CODEX_WORDS,
        writes_by_shell=True,
    ),
    "codex-websocket": Program(
        protocol="openai-responses",
        needs=_CODEX,
        launch=partial(_launch_codex, config=_CODEX_CONFIG + _CODEX_SOCKETS),
        words=_CODEX_WORDS,
        writes_by_shell=True,
    ),
    "opencode": Program(
        protocol="openai-chat",
        needs=_OPENCODE,
        launch=_launch_opencode,
        words=_words("bash", "write", path="filePath"),
    ),
    "qwen-code": Program(
        protocol="openai-chat",
        needs=_QWEN,
        launch=_launch_qwen,
        words=_words("run_shell_command", "write_file", path="file_path"),
    ),
    "pi": Program(
        protocol="openai-chat",
        needs=_PI,
        launch=_launch_pi,
        words=_words("bash", "write", path="path"),
    ),
    "ai-sdk-6": _ai_sdk("openai-chat", "chat", home=PEERS),
    "ai-sdk-6-responses": _ai_sdk("openai-responses", "responses", home=PEERS),
    "ai-sdk-6-messages": _ai_sdk("anthropic", "messages", home=PEERS),
    "ai-sdk-7": _ai_sdk("openai-chat", "chat", home=MODULES.parent),
    "ai-sdk-7-responses": _ai_sdk("openai-responses", "responses", home=MODULES.parent),
    "ai-sdk-7-messages": _ai_sdk("anthropic", "messages", home=MODULES.parent),
}

CODEX_NEWEST = Program(
    protocol="openai-responses",
    needs=_CODEX,
    launch=_launch_codex,
    words={},
    model="gpt-6.1-sol",
)
"""Codex as it is with the newest models: all its tools are functions of a script, which is the
input of the one tool `exec`. The tools come as an item of the input, in namespaces."""
