"""Every text is read whole, in single characters, in 3s and 7s, and at random cuts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from recut import every_cutting
from wholecall.dialects.rescue import parse_text
from wholecall.events import Outcome

Say: TypeAlias = Callable[..., str]


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {
        key: each if isinstance(each, dict) else {"type": each} for key, each in properties.items()
    }
    return {"name": name, "parameters": {"type": "object", "properties": schema}}


TOOLS: list[dict[str, Any]] = [
    tool("find", query="string", limit="integer"),
    tool("write", path="string", text="string", mode={"type": ["integer", "null"]}),
    tool("plan", steps="array", goal="object", done="boolean", note={}),
    tool("now"),
    {"name": "any", "parameters": {}},
    tool("tags", **{"tag[]": "integer"}),
]


def say_outcome(outcome: Outcome) -> str:
    """Calls as `name arguments`, rejections as `!reason name`, then reasoning and text."""
    verdicts = [
        *(
            (call.number, f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}")
            for call in outcome.calls
        ),
        *((each.number, f"!{each.reason.value} {each.name or '-'}") for each in outcome.rejected),
    ]
    said = [verdict for _, verdict in sorted(verdicts, key=lambda pair: pair[0])]
    if outcome.reasoning:
        said.append(f"~{outcome.reasoning}")
    if outcome.text:
        said.append(f"'{outcome.text}'")
    return " | ".join(said)


def say_every_way(dialect: str, text: str, *, tools: Any = TOOLS) -> str:
    """What an answer delivers, after every cutting of it has told the same."""
    sized = [[text[at : at + size] for at in range(0, len(text), size)] for size in (3, 7)]
    cuttings = [*every_cutting(text), *sized] if text else [[text]]
    whole, *others = (say_outcome(parse_text(dialect, cut, tools=tools)) for cut in cuttings)
    assert [other for other in others if other != whole] == []
    return whole


@pytest.fixture(scope="session")
def say() -> Say:
    """Read a text every way and say what came of it."""
    return say_every_way
