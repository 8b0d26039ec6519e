"""Which choices of a whole answer are one."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall import assemble_response

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def words(text: str | None, reason: str | None = "tool_calls", **more: Any) -> dict[str, Any]:
    return {"message": {"content": text, **more}, "finish_reason": reason}


def calls(*cities: str, content: str | None = None) -> dict[str, Any]:
    entries = [
        {"id": city, "function": {"name": "f", "arguments": f'{{"city":"{city}"}}'}}
        for city in cities
    ]
    return words(content, tool_calls=entries)


LEGACY = words(None, "function_call", function_call={"name": "f", "arguments": '{"city":"A"}'})

# what holds, choices, text, the cities of its calls
ROWS: list[tuple[str, list[Any], str, list[str]]] = [
    ("words and calls in two choices are one answer", [words("a"), calls("B")], "a", ["B"]),
    ("in whatever index", [words("a"), {**calls("B"), "index": 1}], "a", ["B"]),
    ("calls in a choice each", [words(None), calls("B"), calls("C")], "", ["B", "C"]),
    ("an answer that ended in words is all there is", [words("a", "stop"), calls("B")], "a", []),
    ("or that does not say why", [words("a", None), calls("B")], "a", []),
    ("one that has calls", [calls("A"), calls("B")], "", ["A"]),
    ("or a function_call", [LEGACY, calls("B")], "", ["A"]),
    ("a choice with words is another answer", [words("a"), calls("B", content="b")], "a", []),
    ("a choice without a message", [words("a"), {"finish_reason": "stop"}], "a", []),
    ("no message at all", [{"finish_reason": "tool_calls"}, calls("B")], "", []),
    ("none where the first belongs", [None, words("a", "stop")], "", []),
]


@pytest.mark.parametrize(
    ("choices", "text", "cities"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_choices(choices: list[Any], text: str, *, cities: list[str]) -> None:
    outcome = assemble_response("openai-chat", {"choices": choices}, tools=TOOLS)
    assert (outcome.text, [call.arguments["city"] for call in outcome.calls]) == (text, cities)
