"""Dialects from files: learned from a chat template, or loaded from what describes one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wholecall.dialects.dialect import Dialect
from wholecall.dialects.dialect_catalog import VERSION_KEY, dump_dialect, read_dialect
from wholecall.dialects.learn.learner import Learned, learn
from wholecall.dialects.learn.probes import MANNERS, TOOLS, Manner, Probe, conversations
from wholecall.dialects.learn.response_template import load_response_template
from wholecall.errors import UnusableDialect
from wholecall.template_renderer import LONGEST, Rendering, render

_TOKENS = {"bos_token": "", "eos_token": "", "pad_token": "", "unk_token": ""}


def learn_dialect(
    template: str, *, name: str = "learned", tokens: Mapping[str, str] | None = None
) -> Learned:
    """Return the dialect in which a chat template writes calls, or raise UnusableDialect with the
    reason.

    `tokens` are the tokenizer's special ones, such as `bos_token`.
    """
    renderings = render(template, _orders(), tokens={**_TOKENS, **(tokens or {})})
    reasons: list[str] = []
    for start in range(0, len(renderings), len(Probe)):
        written = dict(zip(Probe, renderings[start : start + len(Probe)], strict=True))
        try:
            return learn(_texts(written), name=name)
        except UnusableDialect as error:
            reasons.append(f"{error}{_why(written)}")
    raise UnusableDialect(reasons[_best(reasons)])


def _orders() -> list[dict[str, Any]]:
    return [_order(manner, probe) for manner in MANNERS for probe in Probe]


def _order(manner: Manner, probe: Probe) -> dict[str, Any]:
    return {
        "messages": conversations(manner)[probe],
        "tools": TOOLS,
        "add_generation_prompt": probe is Probe.PROMPT,
    }


def _texts(written: Mapping[Probe, Rendering]) -> dict[Probe, str]:
    return {probe: each.text for probe, each in written.items() if each.text is not None}


def _why(written: Mapping[Probe, Rendering]) -> str:
    why = written[Probe.ONE].why
    return f": {why}" if why else ""


def _best(reasons: list[str]) -> int:
    """The reason that says most: of a template that wrote a call, if there is one."""
    told = [index for index, reason in enumerate(reasons) if "a form of its own" in reason]
    return told[0] if told else 0


# ── Files ───────────────────────────────────────────────────────────────────────────


def load_dialect(path: str | Path) -> Dialect:
    """A dialect from a file: a stored one, a `response_template`, or a `tokenizer_config.json`
    with either that or a chat template; or a chat template itself."""
    path = Path(path)
    text = _read(path)
    if path.suffix in (".jinja", ".jinja2", ".j2"):
        return learn_dialect(text, name=path.stem).dialect
    try:
        described = json.loads(text)
    except ValueError as error:
        raise UnusableDialect(f"{path.name} is neither JSON nor a .jinja file: {error}") from None
    if isinstance(described, Mapping) and VERSION_KEY in described:
        return read_dialect(described)
    if _is_tokenizer(described) and "response_template" not in described:
        template, tokens = _chat_template(described)
        return learn_dialect(template, name=path.stem, tokens=tokens).dialect
    return load_response_template(described, name=path.stem)


def save_dialect(dialect: Dialect, path: str | Path) -> None:
    """Store a dialect as JSON."""
    text = json.dumps(dump_dialect(dialect), ensure_ascii=False, indent=2)
    Path(path).write_text(text + "\n", encoding="utf-8")


def load_chat_template(path: str | Path) -> tuple[str, dict[str, str]]:
    """A chat template and its tokens, from a `.jinja` file or a `tokenizer_config.json`."""
    path = Path(path)
    text = _read(path)
    if path.suffix != ".json":
        return text, {}
    try:
        described = json.loads(text)
    except ValueError as error:
        raise UnusableDialect(f"{path.name} is no JSON: {error}") from None
    if not _is_tokenizer(described):
        raise UnusableDialect(f"{path.name} holds no chat_template")
    return _chat_template(described)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(8 * LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnusableDialect(f"{path} cannot be read: {why}") from None
    if len(text) > 8 * LONGEST:
        raise UnusableDialect(f"{path} is too long for a template")
    return text


def _is_tokenizer(described: object) -> bool:
    return isinstance(described, Mapping) and "chat_template" in described


def _chat_template(described: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Of several templates the one for tools, else the default one."""
    template = described["chat_template"]
    if isinstance(template, list):
        listed = [each for each in template if isinstance(each, Mapping)]
        named = {each.get("name"): each.get("template") for each in listed}
        template = named.get("tool_use") or named.get("default")
    if not isinstance(template, str):
        raise UnusableDialect("the chat_template is no text")
    tokens = {}
    for key in _TOKENS:
        token = described.get(key)
        content = token.get("content") if isinstance(token, Mapping) else token
        tokens[key] = content if isinstance(content, str) else ""
    return template, tokens
