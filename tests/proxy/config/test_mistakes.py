"""Every kind of mistake in a configuration, and the whole message that names it.

A message has the file and the line, the path of the setting, what was received and what to write
instead. `{file}` stands for the path of the file.
"""

from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.schema import ConfigError

MODEL = "models: {a: {upstream: openai/x, %s}}"
MISTAKES = {
    # ── Names ──
    "lisen: {}": "{file}:1: lisen: there is no such setting; did you mean 'listen'?",
    "\nlisten: {prot: 1}": "{file}:2: listen.prot: there is no such setting; did you mean 'port'?",
    "log: {qqq: 1}": (
        '{file}:1: log.qqq: there is no such setting; known are "level", "format", "bodies"'
    ),
    MODEL % "limits: {turn: 1}": (
        "{file}:1: models.a.limits.turn: there is no such setting; did you mean 'turns'?"
    ),
    "tools: [{python: a:b, envv: c}]": (
        '{file}:1: tools.0.envv: there is no such setting; known are "python"'
    ),
    "models: {a: {}}": "{file}:1: models.a: the setting 'upstream' is missing",
    "models:\n  a:\n": "{file}:2: models.a: the setting 'upstream' is missing",
    "tools: [{pyton: a:b}]": '{file}:1: tools.0: write one of "python", "mcp" here',
    "tools: [{python: a:b, mcp: c}]": '{file}:1: tools.0: write one of "python", "mcp" here',
    "tools: [a:b]": '{file}:1: tools.0: write one of "python", "mcp" here',
    "tools: [~]": '{file}:1: tools.0: write one of "python", "mcp" here',
    # ── Types ──
    "listen: {port: x}": '{file}:1: listen.port: "x" is not a whole number from 0 to 65535',
    "listen: {port: 1.5}": "{file}:1: listen.port: 1.5 is not a whole number from 0 to 65535",
    "listen: {port: true}": "{file}:1: listen.port: true is not a whole number from 0 to 65535",
    "listen: {port: }": "{file}:1: listen.port: null is not a whole number from 0 to 65535",
    "listen: {port: [1]}": "{file}:1: listen.port: a list is not a whole number from 0 to 65535",
    "listen: {host: {a: b}}": "{file}:1: listen.host: a section is not text",
    "listen: {host: 1}": '{file}:1: listen.host: 1 is not text; write "1" in quotes',
    "listen: {hosts: [a, true]}": (
        '{file}:1: listen.hosts.1: true is not text; write "true" in quotes'
    ),
    "listen: {port: '80'}": (
        '{file}:1: listen.port: "80" is not a whole number from 0 to 65535; write 80 without quotes'
    ),
    "listen: {port: '70000'}": '{file}:1: listen.port: "70000" is not a whole number from 0 to 65535',
    "keys: {required: ' true'}": (
        '{file}:1: keys.required: " true" is not true or false; write true without quotes'
    ),
    "keys: {required: 1}": "{file}:1: keys.required: 1 is not true or false",
    "keys: {required: no}": '{file}:1: keys.required: "no" is not true or false',
    "limits: {body_seconds: '5'}": (
        '{file}:1: limits.body_seconds: "5" is not a number above 0; write 5 without quotes'
    ),
    "limits: {body_seconds: .inf}": '{file}:1: limits.body_seconds: ".inf" is not a number above 0',
    "limits: {body_seconds: 1e999}": (
        "{file}:1: limits.body_seconds: Infinity is not a number above 0"
    ),
    "limits: {body_bytes: 12345678901234567890}": (
        "{file}:1: limits.body_bytes: 1.2345678901234567e+19 is not a whole number above 0"
    ),
    "listen: {hosts: a}": '{file}:1: listen.hosts: "a" is no list: write [ … ]',
    "listen: {hosts: {a: b}}": "{file}:1: listen.hosts: a section is no list: write [ … ]",
    "models: [a]": "{file}:1: models: a list has no names: write `name: …`",
    MODEL % "headers: [a]": "{file}:1: models.a.headers: a list has no names: write `name: …`",
    MODEL % "headers: {X-Team: 5}": (
        '{file}:1: models.a.headers.X-Team: 5 is not text; write "5" in quotes'
    ),
    MODEL % "headers: {X-Team: [a]}": "{file}:1: models.a.headers.X-Team: a list is not text",
    "keys: 5": (
        '{file}:1: keys: 5 stands where a section with settings belongs: "path", "required", "open"'
    ),
    "- a": (
        "{file}:1: a list stands where a section with settings belongs: "
        '"listen", "models", "tools", "keys", "limits", "responses", "log", "metrics", "inspector"'
    ),
    # ── Ranges and words ──
    "listen: {port: 70000}": "{file}:1: listen.port: 70000 is not a whole number from 0 to 65535",
    "listen: {port: -1}": "{file}:1: listen.port: -1 is not a whole number from 0 to 65535",
    "limits: {concurrent: 0}": "{file}:1: limits.concurrent: 0 is not a whole number above 0",
    "limits: {header_count: 9}": (
        "{file}:1: limits.header_count: 9 is not a whole number of at least 10"
    ),
    "limits: {keep_alive_seconds: 16}": (
        "{file}:1: limits.keep_alive_seconds: 16 is not a number from 0.1 to 15"
    ),
    MODEL % "limits: {turns: 0}": (
        "{file}:1: models.a.limits.turns: 0 is not a whole number above 0"
    ),
    MODEL % "limits: {seconds: 0}": "{file}:1: models.a.limits.seconds: 0 is not a number above 0",
    MODEL % "limits: {turn_retries: -1}": (
        "{file}:1: models.a.limits.turn_retries: -1 is not a whole number of at least 0"
    ),
    MODEL % "timeouts: {connect: 0.0}": (
        "{file}:1: models.a.timeouts.connect: 0.0 is not a number above 0"
    ),
    "tools: [{mcp: a, command: b, concurrency: 0}]": (
        "{file}:1: tools.0.concurrency: 0 is not a whole number above 0"
    ),
    MODEL % "mode: rum": '{file}:1: models.a.mode: "rum" is not "gate" or "run"',
    MODEL % "rescue: 1": '{file}:1: models.a.rescue: 1 is not "off" or "read_only" or "all"',
    "keys: {open: [/v1]}": (
        '{file}:1: keys.open.0: "/v1" is not "/ready" or "/metrics" or "/inspector"'
    ),
    # ── Keys ──
    MODEL % "api_key: sk-123": (
        "{file}:1: models.a.api_key: a key may not stand in the file: write ${NAME} and put it "
        "into the environment variable NAME"
    ),
    MODEL % "api_key: 5123": (
        "{file}:1: models.a.api_key: a key may not stand in the file: write ${NAME} and put it "
        "into the environment variable NAME"
    ),
    MODEL % "api_key: '${MISSING}'": "{file}:1: the environment variable MISSING is not set",
    MODEL % "base_url: '${KEY}'": (
        "{file}:1: models.a.base_url: this setting takes no ${KEY}: only keys, headers and env do"
    ),
    "listen: {hosts: ['${KEY}']}": (
        "{file}:1: listen.hosts.0: this setting takes no ${KEY}: only keys, headers and env do"
    ),
    MODEL % "mode: '${KEY}'": (
        "{file}:1: models.a.mode: this setting takes no ${KEY}: only keys, headers and env do"
    ),
    MODEL % "limits: '${KEY}'": (
        "{file}:1: models.a.limits: *** stands where a section with settings belongs: "
        '"turns", "calls", "seconds", "tokens", "concurrency", "tool_timeout", "attempts", '
        '"warn_identical", "stop_identical", "result_limit", "turn_retries", "output_tokens", '
        '"lost_threads"'
    ),
    MODEL % "headers: {Authorization: secret}": (
        "{file}:1: models.a.headers.Authorization: what looks like a key may not stand in the "
        "file: write ${NAME} and set that environment variable"
    ),
    # ── Rules ──
    "models: {a: {upstream: gpt}}": (
        "{file}:1: models.a.upstream: 'gpt' does not say who answers: write openai/…, responses/…, "
        "anthropic/…, ollama/…, gemini/…, litellm/…, local/…; or give a base_url"
    ),
    MODEL % "base_url: x.example": (
        "{file}:1: models.a.base_url: 'x.example' is no http:// or https:// address: "
        "write it as in http://127.0.0.1:8000/v1"
    ),
    MODEL % "base_url: 'http://u:p@x'": (
        "{file}:1: models.a.base_url: a password may not stand in an address: use api_key or headers"
    ),
    "tools: [{python: shop}]": (
        '{file}:1: tools.0.python: "shop" names no function: write module:function'
    ),
    "listen: {host: 0.0.0.0, hosts: ['*']}": (
        "{file}:1: listen.host: '0.0.0.0' can be reached from other machines: set keys.required: "
        "true and make keys with `wholecall keys create`, or listen on 127.0.0.1"
    ),
    # ── YAML ──
    "a: [": (
        "{file}:1: this is no YAML: while parsing a flow node, expected the node content, but found "
        "'<stream end>'"
    ),
    "listen: {port: 1}\nlisten: {port: 2}": (
        "{file}:2: 'listen' was written in line 1 already: keep one of them"
    ),
    "log: {level: ${KEY}}": (
        "{file}:1: this is no YAML: while parsing a flow mapping, expected ',' or '}', but got '{'; "
        "inside of { } and [ ], ${NAME} needs quotes"
    ),
    "log: !secret x": "{file}:1: the tag '!secret' is not allowed: leave it out",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_its_cure(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, text, environ={"KEY": "sk-hidden"})
    [problem] = refused.value.problems
    expected = MISTAKES[text].replace("{file}", str(tmp_path / "wholecall.yaml"))
    assert str(problem) == expected
    assert not any(secret in str(refused.value) for secret in ("sk-", "5123", "u:p"))
