"""An answer as JSON for programs, and in words for people.

The words are rows of a label and a text. A row is made in one place, which cuts it and
makes it safe to print: models write escape sequences, and a terminal would obey them.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from wholecall.board import Board, Lane
from wholecall.core.outcome import Outcome
from wholecall.core.values import Call, Ended, Evidence, Problem, Rejected, Usage

# What a row shows of a long text: its beginning and its end. A growing one fits in whole.
_HEAD, _END = 200, 100
# Oddities and faults of one answer that are listed; the others are counted.
_MOST_NOTES = 10
_INDENT = "  "
_LABEL_WIDTH = 11


# ── For programs ────────────────────────────────────────────────────────────────────


def as_json(title: str, outcome: Outcome) -> str:
    """One line of JSON, in ASCII: it passes every pipe, and half a surrogate pair too."""
    return json.dumps({"title": title, **_outcome(outcome)})


def _outcome(outcome: Outcome) -> dict[str, Any]:
    choices = {str(index): _outcome(other) for index, other in outcome.choices.items()}
    return {
        "calls": [_call(call) for call in outcome.calls],
        "rejected": [_rejected(rejected) for rejected in outcome.rejected],
        "text": outcome.text,
        "reasoning": outcome.reasoning,
        "finish_reason": outcome.finish_reason,
        "native_finish_reason": outcome.native_finish_reason,
        "error": outcome.error,
        "inconsistencies": [odd.oddity.value for odd in outcome.inconsistencies],
        "usage": _usage(outcome.usage),
        **({"choices": choices} if choices else {}),
    }


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "evidence": name_evidence(call.evidence),
        "repairs": [dataclasses.asdict(repair) for repair in call.repairs],
        "coercions": [dataclasses.asdict(coercion) for coercion in call.coercions],
        "dropped": list(call.dropped),
    }


def _rejected(rejected: Rejected) -> dict[str, Any]:
    return {
        "id": rejected.id,
        "name": rejected.name,
        "reason": rejected.reason.value,
        "detail": rejected.detail,
        "raw": rejected.raw,
        "problems": [dataclasses.asdict(problem) for problem in rejected.problems],
    }


def _usage(usage: Usage | None) -> dict[str, int | None] | None:
    if usage is None:
        return None
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


# ── For people ──────────────────────────────────────────────────────────────────────


class Row(NamedTuple):
    """One line of a report; `words` are safe to print."""

    label: str
    words: str


def row(label: str, text: str) -> Row:
    """Make a row of a text that anybody may have written."""
    return Row(label, show(text))


def show(text: str) -> str:
    """As much of a text as a reader wants to see, safe to print."""
    return escape(_shorten(text))


def escape(text: str) -> str:
    """Show what cannot be seen: control characters, invisible ones, half a surrogate pair."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def name_evidence(evidence: Evidence) -> list[str]:
    """The evidence by name, in the order in which it is usually gained."""
    return [str(flag.name) for flag in Evidence if flag in evidence]


def as_text(title: str, board: Board) -> str:
    """All that a stream has shown, as plain lines."""
    return "\n".join([f"== {show(title)}", *_lines(board)])


def speech_rows(board: Board) -> Iterator[Row]:
    """Yield the rows of the model's text."""
    if board.reasoning.size:
        yield row("reasoning", str(board.reasoning))
    if board.text.size:
        yield row("text", str(board.text))


def lane_rows(lane: Lane) -> Iterator[Row]:
    """A call: what came, what was done to it, and the verdict."""
    if lane.repeat_of is not None:
        yield row("received", _received(str(lane.arguments)))
        yield row("REPEATED", f"the same as call {lane.repeat_of}, sent again: dropped")
    elif lane.verdict is None:
        yield row("building", str(lane.arguments))
    else:
        yield row("received", _received(lane.verdict.raw))
        yield from _verdict_rows(lane.verdict)


def ending_rows(board: Board) -> Iterator[Row]:
    """Yield the rows of oddities, failures and the end of the answer."""
    yield from _notes("odd", board.oddities)
    yield from _notes("error", board.faults)
    if board.ended is not None:
        yield row("ended", _ending(board.ended))


def _lines(board: Board) -> Iterator[str]:
    yield from _format(speech_rows(board))
    for number, lane in board.lanes.items():
        evidence = " ".join(name_evidence(lane.evidence)) or "no evidence"
        heading = row(f"call {number}", f"{lane.name or '(no name)'}  [{evidence}]")
        yield from _format([heading])
        yield from _format(lane_rows(lane), _INDENT)
    yield from _format(ending_rows(board))
    for index, choice in board.choices.items():
        yield f"-- choice {index}"
        yield from _lines(choice)


def _format(rows: Iterable[Row], indent: str = "") -> Iterator[str]:
    for label, words in rows:
        yield f"{indent}{label:<{_LABEL_WIDTH - len(indent)}}{words}"


def _verdict_rows(verdict: Call | Rejected) -> Iterator[Row]:
    if isinstance(verdict, Call):
        yield from _change_rows(verdict)
        yield row("CALL", f"{verdict.name} {_spell(verdict.arguments)}")
    else:
        yield from (row("problem", _problem(problem)) for problem in verdict.problems)
        yield row("REJECTED", f"{verdict.reason.value}: {verdict.detail}")


def _change_rows(call: Call) -> Iterator[Row]:
    for repair in call.repairs:
        yield row("repaired", f"{repair.kind}: {repair.before!r} -> {repair.after!r}")
    for coercion in call.coercions:
        change = f"{_spell(coercion.before)} -> {_spell(coercion.after)}"
        yield row("coerced", f"{coercion.path}: {change}")
    for name in call.dropped:
        yield row("dropped", f"{name!r}: the tool has no such parameter")


def _problem(problem: Problem) -> str:
    path, message = problem.path, problem.message
    return message if path in message else f"{path}: {message}"


def _notes(label: str, notes: Counter[str]) -> Iterator[Row]:
    for note, times in islice(notes.items(), _MOST_NOTES):
        yield row(label, note if times == 1 else f"{note}, {times} times")
    if len(notes) > _MOST_NOTES:
        yield row(label, f"and {len(notes) - _MOST_NOTES} others")


def _ending(ended: Ended) -> str:
    native = "no finish reason" if ended.native is None else f"{ended.native!r}"
    return f"{ended.finish_reason or 'in error'} (the upstream said {native})"


def _received(text: str) -> str:
    return text or "(nothing)"


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    left_out = len(text) - _HEAD - _END
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]} … {left_out:,} characters … {text[-_END:]}"
