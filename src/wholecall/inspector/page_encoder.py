"""Events as the page reads them: their own JSON, without secrets.

An event keeps its type and the names of its fields. A rule says how a field of this name is shown,
in whatever event; a field whose name has no rule is not shown at all. Empty fields are omitted.

Whatever may hold a number of more than 53 bits (arguments, values before and after a change,
progress) is sent as text: JavaScript would round it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
    Resumed,
    RunEnded,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolRecalled,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.events import (
    JSON,
    Call,
    Coercion,
    Ended,
    Evidence,
    Fault,
    HintGiven,
    Inconsistent,
    Opened,
    Problem,
    Proved,
    Rejected,
    Released,
    Repair,
    Repeated,
    Usage,
    Value,
)
from wholecall.messages import CallResult, Message, PastCall, Request, Result, ToolSpec

Fields: TypeAlias = dict[str, Any]
"""An object of JSON."""

MOST_CHARACTERS = 256 * 1024
"""Per text. Arguments and results beyond this size are not readable."""
MOST_MESSAGES = 40
"""Of one request that are shown: the last ones."""
MOST_NAMES = 1024
"""Names that are cached."""
_TICKS = 1_000_000
"""Per second: times are whole numbers of ticks."""
_NAME = re.compile(r"[\w.:/@*-]{1,128}")


class SecretFilter(Protocol):
    """Takes secrets out of texts."""

    def hide(self, text: str) -> str:
        """A text without secrets."""

    def tail(self, text: str) -> str:
        """Return the end of a text: a secret may begin in it and continue after it."""

    def finds_in(self, texts: Sequence[str]) -> bool:
        """Return True if a secret is in one of many texts, each of whole lines."""


class Quoting(NamedTuple):
    """The rules for quoting content."""

    bodies: bool
    """True if texts, arguments and results may be shown at all."""
    hides: SecretFilter
    """Takes secrets out of texts."""
    names: dict[str, str] | None = None
    """Redacted names by their original; None: no cache. To be cleared when the secrets change."""

    def quote(self, text: str) -> str:
        """A text, if it may be shown."""
        return self.clean(text) if self.bodies else ""

    def clean(self, text: str) -> str:
        """A text without secrets and without halves of characters, which UTF-8 does not have."""
        if not text:
            return ""
        left_out = len(text) - MOST_CHARACTERS
        if left_out > 0:
            text = f"{text[:MOST_CHARACTERS]} … and {left_out} more characters"
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        return self.hides.hide(text)

    def name(self, text: str | None) -> str:
        """Redact a name. The same few occur again and again."""
        if not text:
            return ""
        if self.names is None:
            return self._check_name(text)
        known = self.names.get(text)
        if known is None:
            if len(self.names) >= MOST_NAMES:
                self.names.clear()
            known = self.names[text] = self._check_name(text)
        return known

    def _check_name(self, text: str) -> str:
        """Models write whole sentences where a name belongs."""
        if self.bodies or _NAME.fullmatch(text):
            return self.clean(text)
        return f"({len(text)} characters that are not a name)"

    def value(self, value: JSON) -> str:
        """A value as JSON text, if it may be shown."""
        return self.quote(json.dumps(value, ensure_ascii=False)) if self.bodies else ""


Rule: TypeAlias = Callable[[Quoting, Any], Any] | None
"""Returns how a field is shown; None for one that is shown as it is. Nothing is shown of an empty
text or None."""
Encoder: TypeAlias = Callable[[Any, Quoting], Fields]
Encoders: TypeAlias = Mapping[type, Encoder]
"""The page's form of each type of event."""


# ── Rules ───────────────────────────────────────────────────────────────────────────


def omit(_: Quoting, _value: object) -> None:
    """Show nothing."""


def tell_seconds(_: Quoting, seconds: float) -> float:
    """A duration without digits that say nothing. (`round` takes twice as long.)"""
    return int(seconds * _TICKS + 0.5) / _TICKS


@cache
def _list_evidence(evidence: Evidence) -> Sequence[str]:
    return tuple(str(one.name) for one in evidence)


def _measure(quoting: Quoting, raw: str) -> str | int:
    """A text, or at least its length."""
    return quoting.clean(raw) if quoting.bodies else len(raw)


def _admit(quoting: Quoting, text: str) -> str | bool | None:
    """A text, or at least that there is one."""
    return (quoting.quote(text) or True) if text else None


def _name_native(quoting: Quoting, native: object) -> str:
    """A finish reason. Others are the provider's own JSON."""
    return quoting.name(native) if isinstance(native, str) else ""


def _name_error(quoting: Quoting, error: str | BaseException | None) -> str:
    """Our own words, or the type of a tool's exception: its text may hold anything."""
    return type(error).__name__ if isinstance(error, BaseException) else quoting.clean(error or "")


def _name_call(quoting: Quoting, call: Call) -> Fields:
    return {"id": quoting.clean(call.id), "name": quoting.name(call.name)}


def _name_all(quoting: Quoting, names: Sequence[str]) -> Sequence[str]:
    return tuple([quoting.name(name) for name in names])


def _quote_result(quoting: Quoting, result: Result) -> str:
    return quoting.quote(result.text)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("number", "of", "turn", "attempt", "approved", "stream", "status")),
    **dict.fromkeys(("input_tokens", "output_tokens", "finish_reason")),
    **dict.fromkeys(("kind", "hint", "oddity", "reason", "stop", "fate", "action", "server")),
    **dict.fromkeys(("protocol", "request_id", "upstream", "way")),
    **dict.fromkeys(("seconds", "delay", "added"), tell_seconds),
    **dict.fromkeys(("id", "call_id", "code"), Quoting.clean),
    **dict.fromkeys(("name", "model", "upstream_model"), Quoting.name),
    **dict.fromkeys(("detail", "message", "why", "path"), Quoting.quote),
    **dict.fromkeys(("before", "after", "received", "expected"), Quoting.quote),
    "progress": Quoting.value,
    "native": _name_native,
    "error": _name_error,
    "call": _name_call,
    "raw": _measure,
    "no_answer": _admit,
    "result": _quote_result,
    "dropped": _name_all,
    "evidence": lambda _, evidence: _list_evidence(evidence),
}
"""By the name of the field. What is a secret and what was said is decided here."""


def make_encoder(kind: type[Any], **rules: Rule) -> Encoder:
    """Return the encoder of a type. `rules` hold for its fields, and the common ones for others."""
    known = {**_RULES, **rules}
    tag: Fields = {}
    if issubclass(kind, Value):  # tagged like its JSON; other types are only a part of an event
        tag, names = {"type": kind.__struct_config__.tag}, list(kind.__struct_fields__)
    else:
        names = [field.name for field in fields_of(kind)]
    parts = [(name, known[name]) for name in names if name in known]

    def encode(value: object, quoting: Quoting) -> Fields:
        fields: Fields = tag.copy()
        for name, rule in parts:
            shown = getattr(value, name)
            if rule is not None:
                shown = rule(quoting, shown)
            if shown or shown == 0:
                fields[name] = shown
        return fields

    return encode


def _each(encode: Encoder) -> Rule:
    return lambda quoting, values: tuple([encode(value, quoting) for value in values])


_RULES["repairs"] = _each(make_encoder(Repair))
_RULES["problems"] = _each(make_encoder(Problem))
_RULES["coercions"] = _each(
    make_encoder(Coercion, path=Quoting.name, before=Quoting.value, after=Quoting.value)
)
_encode_call = make_encoder(Call)


def _show_call(quoting: Quoting, call: Call) -> Fields:
    """A call whose arguments were not changed says them once, in `raw`."""
    shown = _encode_call(call, quoting)
    if quoting.bodies and (call.repairs or call.coercions or call.dropped):
        shown["arguments"] = quoting.value(dict(call.arguments))
    return shown


def _encode_takeover(event: Any, quoting: Quoting) -> Fields:
    words = {"turn": event.turn, "worker": quoting.clean(event.worker)}
    return {"type": "Resumed", **words, "taken": bool(event.before)}


_NAMED = (
    *(Opened, Proved, Rejected, Repeated, Usage, HintGiven, Inconsistent, Fault, Ended),
    *(TurnStarted, RunEnded, ToolStarted, ToolReported, ToolEnded, ToolEndedLate, ToolAbandoned),
    *(ApprovalAsked, ApprovalAnswered, ElicitationAsked, ElicitationAnswered),
)
ENCODERS: Encoders = {
    **{kind: make_encoder(kind) for kind in _NAMED},
    Released: make_encoder(Released, call=_show_call),
    TurnRetried: make_encoder(TurnRetried, why=Quoting.clean),
    Resumed: _encode_takeover,
    ToolRecalled: make_encoder(ToolRecalled, call=_show_call),
}
"""For the events that the page shows, except growing texts."""


# ── Requests ────────────────────────────────────────────────────────────────────────


def encode_request(request: Request, quoting: Quoting, *, told: int = 0) -> Fields:
    """Encode the request. Its first `told` messages were shown before."""
    asked = encode_offer(name_tools(request.tools, quoting), len(request.messages), told=told)
    if quoting.bodies:
        messages = request.messages[asked["left_out"] :]
        asked["messages"] = [_message(message, quoting) for message in messages]
    return asked


def encode_offer(tools: Sequence[str], messages: int, *, told: int = 0) -> Fields:
    """The same without its messages, of which there are so many."""
    before = told if told < messages else 0
    left_out = before + max(messages - before - MOST_MESSAGES, 0)
    return {"type": "UpstreamAsked", "left_out": left_out, "tools": tools}


def name_tools(tools: Sequence[ToolSpec], quoting: Quoting) -> Sequence[str]:
    """The names of tools that a model is offered."""
    return tuple([quoting.name(tool.name) for tool in tools])


def _message(message: Message, quoting: Quoting) -> Fields:
    shown: Fields = {"role": message.role, "text": quoting.quote(message.text)}
    calls = [_past_call(part, quoting) for part in message.parts if isinstance(part, PastCall)]
    results = [_result(part, quoting) for part in message.parts if isinstance(part, CallResult)]
    lists = {"calls": calls, "results": results}
    return shown | {name: parts for name, parts in lists.items() if parts}


def _past_call(call: PastCall, quoting: Quoting) -> Fields:
    return {"name": quoting.name(call.name), "arguments": quoting.value(dict(call.arguments))}


def _result(result: CallResult, quoting: Quoting) -> Fields:
    text = quoting.quote(result.result.text)
    return {"name": quoting.name(result.name), "failed": result.result.failed, "text": text}
