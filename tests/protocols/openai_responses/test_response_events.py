from __future__ import annotations

from typing import Any

import pytest

from encoded_answers import take_apart
from wholecall.protocols.openai_responses.response import (
    SAID,
    SUMMARY,
    THOUGHT,
    Events,
    Growth,
    TextEvents,
    TextKind,
)

WHERE = {"item_id": "i", "output_index": 3}


def test_numbers_rise_over_all_events() -> None:
    events = Events()
    growth = Growth(events, "x.delta", fields=WHERE)
    stream = events.write("a", b=1) + growth.write("é\n") + growth.write("") + events.write("c")
    assert take_apart(stream) == [
        ("a", {"type": "a", "sequence_number": 0, "b": 1}),
        ("x.delta", {"type": "x.delta", "sequence_number": 1, **WHERE, "delta": "é\n"}),
        ("x.delta", {"type": "x.delta", "sequence_number": 2, **WHERE, "delta": ""}),
        ("c", {"type": "c", "sequence_number": 3}),
    ]


@pytest.mark.parametrize(
    ("kind", "names", "fields"),
    [
        (
            SAID,
            ("response.content_part", "response.output_text", "content_index"),
            {"type": "output_text", "annotations": [], "logprobs": []},
        ),
        (
            SUMMARY,
            (
                "response.reasoning_summary_part",
                "response.reasoning_summary_text",
                "summary_index",
            ),
            {"type": "summary_text"},
        ),
        (
            THOUGHT,
            ("response.content_part", "response.reasoning_text", "content_index"),
            {"type": "reasoning_text"},
        ),
    ],
)
def test_a_text_is_told_in_pieces_and_whole(
    kind: TextKind, names: tuple[str, str, str], *, fields: dict[str, Any]
) -> None:
    part, text, index = names
    frames = take_apart(TextEvents(Events(), kind, where=WHERE, at=2).write("ab"))
    place = {**WHERE, index: 2}
    more: dict[str, Any] = {"logprobs": []} if kind is SAID else {}
    for frame in frames:
        assert frame.payload.pop("type") == frame.name
        frame.payload.pop("sequence_number")
    assert frames == [
        (f"{part}.added", {**place, "part": {**fields, "text": ""}}),
        (f"{text}.delta", {**place, **more, "delta": "ab"}),
        (f"{text}.done", {**place, **more, "text": "ab"}),
        (f"{part}.done", {**place, "part": {**fields, "text": "ab"}}),
    ]
