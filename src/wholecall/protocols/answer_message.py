"""The message that an answer becomes in the next request.

Its parts are in the order in which they came: reasoning, text, calls, and what the provider itself
did. Fields that the provider wants back stay with them (`extras`), so that the message written in
the same protocol is what the provider expects.

| where it is kept                               | what it is                                 |
|------------------------------------------------|--------------------------------------------|
| `Reasoning.extras["signature"]`                | Anthropic's, of the thinking               |
| `Reasoning("", {"redacted_thinking": …})`      | thinking that Anthropic does not show      |
| `Reasoning.extras["item"]`                     | Responses': the whole item                 |
| `Reasoning("", {"message": …})` after a text   | Responses': id and phase of its item       |
| `Reasoning.extras["thought_signature"]`        | Gemini's, of the thought or the text before|
| `Reasoning("", {"reasoning_details": […], …})` | those of OpenAI chat upstreams             |
| `Reasoning("", {"citations": […]})`            | Anthropic's, of the text before; none: the |
|                                                | next text is a block of its own            |
| `PastCall.extras`                              | of a call, in the decoder's words          |

Notes on a text that no provider wants back are omitted: `logprobs` and `annotations` of OpenAI's
chat, `notes` of Responses, Anthropic's `stop_sequence`, the mark of an OpenAI `refusal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wholecall.arguments.parse import Parsed, parse
from wholecall.events import (
    Call,
    Event,
    Opened,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)
from wholecall.messages import Message, Native, Part, PastCall, Role
from wholecall.protocols.decoder import DECLINED, present

NOTES = ("annotations", "logprobs")
"""Notes on a text in OpenAI's chat. Each is a list, and comes in pieces."""
LEFT_OUT = frozenset({*NOTES, "stop_sequence", DECLINED})
"""Fields that no provider wants back."""
# These come in pieces over many chunks; all others are whole and end what they belong to.
_GROWING = ("reasoning_details", "thinking_blocks")
# The fields of an entry whose pieces are joined; of the others the latest counts.
_JOINED = frozenset({"text", "summary", "data", "thinking"})
# It was put on one piece of the text; joined with others that would be another text.
_OF_ONE_PIECE = "thought_signature"


def answer_message(events: Iterable[Event], protocol: str) -> Message:
    """Make the assistant's message of a turn from the events of its reader.

    Rejected calls stand in it too: each of them gets a result that says what was wrong.
    """
    answer = _Answer(protocol)
    for event in events:
        take = _HANDLERS.get(type(event))
        if take is not None:
            take(answer, event)
    return Message(Role.ASSISTANT, answer.finish())


def own_text(call: Call) -> str:
    """Return the arguments as the model wrote them; empty if they are not just these any more."""
    if call.repairs or call.coercions or call.dropped:
        return ""
    try:
        return call.raw if msgspec.json.decode(call.raw) == call.arguments else ""
    except (ValueError, RecursionError):  # no text came, or the same object twice
        return ""


def past_call(verdict: Call | Rejected) -> PastCall:
    """Return a call of this turn for the history; its result refers to its `id`."""
    if isinstance(verdict, Call):
        arguments, name = verdict.arguments, verdict.name
    else:
        parsed = parse(verdict.raw)
        value = parsed.value if isinstance(parsed, Parsed) else None
        arguments, name = (value if isinstance(value, Mapping) else {}), verdict.name or ""
    return PastCall(
        # What never got a name was never given an id.
        id=verdict.id or verdict.provider_id or f"nameless_{verdict.number}",
        name=name,
        arguments=arguments,
        provider_id=verdict.provider_id,
        extras=verdict.extras,
        raw=own_text(verdict) if isinstance(verdict, Call) else "",
    )


class _Answer:
    """The parts of an answer, being put together."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._parts: list[Part | int] = []
        """A number represents the call that was opened in this place."""
        self._calls: dict[int, PastCall] = {}
        self._placed: set[int] = set()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._growing: dict[str, list[Any]] = {}

    # ── Events ──────────────────────────────────────────────────────────────────────

    def take_text(self, event: Text) -> None:
        self._end_thoughts()
        self._texts.append(event.text)

    def take_reasoning(self, event: Reasoning) -> None:
        if not event.extras:
            self._end_texts()
            self._thoughts.append(event.text)
        elif event.extras.keys() <= LEFT_OUT:
            return
        elif event.extras.keys().isdisjoint(_GROWING):
            self._end_with(event)
        else:
            for key, entries in event.extras.items():
                self._growing.setdefault(key, []).extend(entries)

    def take_block(self, event: ProviderBlock) -> None:
        self._end_all()
        self._parts.append(Native(self._protocol, event.native))

    def take_opened(self, event: Opened) -> None:
        self._place(event.number)

    def take_released(self, event: Released) -> None:
        self._settle(event.call)

    def take_rejected(self, event: Rejected) -> None:
        self._settle(event)

    def take_repeated(self, event: Repeated) -> None:
        self._calls.pop(event.number, None)

    # ── Parts ───────────────────────────────────────────────────────────────────────

    def finish(self) -> tuple[Part, ...]:
        self._end_all()
        details = {key: _join_entries(entries) for key, entries in self._growing.items()}
        parts: list[Part] = [Reasoning("", details)] if details else []
        for part in self._parts:
            if not isinstance(part, int):
                parts.append(part)
            elif part in self._calls:
                parts.append(self._calls[part])
        return tuple(parts)

    def _settle(self, verdict: Call | Rejected) -> None:
        self._place(verdict.number)
        self._calls[verdict.number] = past_call(verdict)

    def _place(self, number: int) -> None:
        if number not in self._placed:
            self._end_all()
            self._placed.add(number)
            self._parts.append(number)

    def _end_with(self, event: Reasoning) -> None:
        """Something whole came: with the thoughts before it, or for the text before it."""
        if self._texts and _OF_ONE_PIECE in event.extras:
            last = self._texts.pop()
            self._end_texts()
            self._texts.append(last)
        self._end_texts()
        thoughts = "".join([*self._thoughts, event.text])
        self._thoughts = []
        self._parts.append(Reasoning(thoughts, event.extras))

    def _end_all(self) -> None:
        self._end_texts()
        self._end_thoughts()

    def _end_texts(self) -> None:
        text = "".join(self._texts)
        self._texts = []
        if text:
            self._parts.append(Text(text))

    def _end_thoughts(self) -> None:
        text = "".join(self._thoughts)
        self._thoughts = []
        if text:
            self._parts.append(Reasoning(text))


# ── Details that came in pieces ─────────────────────────────────────────────────────


def _join_entries(pieces: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: list[list[Mapping[str, Any]]] = []
    for piece in pieces:
        if groups and _goes_on(groups[-1], piece):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [_join(group) for group in groups]


def _goes_on(group: Sequence[Mapping[str, Any]], piece: Mapping[str, Any]) -> bool:
    """Return True for one more piece: of the same kind, in the same place, before the signature."""
    first, last = group[0], group[-1]
    same = all(first.get(key) == piece.get(key) for key in ("type", "index"))
    ids = (first.get("id"), piece.get("id"))
    return same and (None in ids or ids[0] == ids[1]) and not last.get("signature")


def _join(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for piece in group:
        joined.update(piece if not joined else present(piece))
    for key in _JOINED.intersection(joined):
        texts = [piece[key] for piece in group if isinstance(piece.get(key), str)]
        joined[key] = "".join(texts) if texts else joined[key]
    return joined


_HANDLERS: dict[type, Callable[[_Answer, Any], None]] = {
    Text: _Answer.take_text,
    Reasoning: _Answer.take_reasoning,
    ProviderBlock: _Answer.take_block,
    Opened: _Answer.take_opened,
    Released: _Answer.take_released,
    Rejected: _Answer.take_rejected,
    Repeated: _Answer.take_repeated,
}
