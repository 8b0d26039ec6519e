"""Anthropic's forms of choice."""

from typing import Any

import pytest

from wholecall.errors import InvalidChoice
from wholecall.messages import Choice, EncodedChoice, Mode, Special
from wholecall.protocols.anthropic.request import CHOICE as ANTHROPIC

OFFERED = ("alpha", "beta")
SHELL = Special("shell")
ONE = {"disable_parallel_tool_use": True}

# what holds, tool_choice, choice
READ: list[tuple[str, Any, Choice]] = [
    ("nothing", None, Choice()),
    ("auto", {"type": "auto"}, Choice()),
    ("any", {"type": "any"}, Choice(Mode.REQUIRED)),
    ("one tool", {"type": "tool", "name": "beta"}, Choice(Mode.REQUIRED, ("beta",))),
    ("none", {"type": "none"}, Choice(Mode.NONE)),
    ("one at a time", {"type": "auto", **ONE}, Choice(parallel=False)),
    (
        "one tool, once",
        {"type": "tool", "name": "beta", **ONE},
        Choice(Mode.REQUIRED, ("beta",), False),
    ),
    ("in parallel", {"type": "any", "disable_parallel_tool_use": False}, Choice(Mode.REQUIRED)),
    ("beside none the flag says nothing", {"type": "none", **ONE}, Choice(Mode.NONE)),
]


@pytest.mark.parametrize(("value", "choice"), [r[1:] for r in READ], ids=[r[0] for r in READ])
def test_each_form_is_read(value: Any, choice: Choice) -> None:
    assert ANTHROPIC.decode({"tool_choice": value}, OFFERED) == choice


# what holds, tool_choice, the field that is named, words of the refusal
REFUSED: list[tuple[str, Any, str, str]] = [
    ("a word", "none", "tool_choice", "'none'; allowed: an object"),
    ("no type", {}, "tool_choice.type", "None; allowed: 'any', 'auto', 'none', 'tool'"),
    ("OpenAI's word", {"type": "required"}, "tool_choice.type", "'required'"),
    ("no name", {"type": "tool"}, "tool_choice.name", "None; allowed: 'alpha', 'beta'"),
    ("an unknown tool", {"type": "tool", "name": "delta"}, "tool_choice.name", "'delta'"),
    (
        "a flag that is a word",
        {"type": "auto", "disable_parallel_tool_use": "yes"},
        "tool_choice.disable_parallel_tool_use",
        "'yes'; allowed: true, false",
    ),
]


@pytest.mark.parametrize(
    ("value", "param", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_each_invalid_value_is_refused_by_name(value: Any, param: str, *, words: str) -> None:
    with pytest.raises(InvalidChoice) as refused:
        ANTHROPIC.decode({"tool_choice": value}, OFFERED)

    assert refused.value.param == param
    assert words in str(refused.value)


# what holds, choice, tool_choice, what to offer, what cannot be said
SAID: list[tuple[str, Choice, Any, tuple[str, ...] | None, tuple[Special, ...]]] = [
    ("auto", Choice(), {"type": "auto"}, None, ()),
    ("none", Choice(Mode.NONE), {"type": "none"}, None, ()),
    ("required", Choice(Mode.REQUIRED), {"type": "any"}, None, ()),
    ("one at a time", Choice(parallel=False), {"type": "auto", **ONE}, None, ()),
    (
        "one tool, once",
        Choice(Mode.REQUIRED, ("beta",), False),
        {"type": "tool", "name": "beta", **ONE},
        None,
        (),
    ),
    ("the others leave the offer", Choice(Mode.AUTO, ("beta",)), {"type": "auto"}, ("beta",), ()),
    (
        "one of two is required",
        Choice(Mode.REQUIRED, ("beta", "alpha")),
        {"type": "any"},
        ("beta", "alpha"),
        (),
    ),
    (
        "a hosted tool cannot be said",
        Choice(Mode.REQUIRED, ("beta",), specials=(SHELL,)),
        {"type": "tool", "name": "beta"},
        None,
        (SHELL,),
    ),
    (
        "and alone leaves nothing to call",
        Choice(Mode.REQUIRED, specials=(SHELL,)),
        {"type": "none"},
        None,
        (SHELL,),
    ),
]


@pytest.mark.parametrize(
    ("choice", "value", "offer", "unsaid"), [r[1:] for r in SAID], ids=[r[0] for r in SAID]
)
def test_each_choice_is_said(
    choice: Choice, value: Any, *, offer: tuple[str, ...] | None, unsaid: tuple[Special, ...]
) -> None:
    assert ANTHROPIC.encode(choice) == EncodedChoice({"tool_choice": value}, offer, unsaid)
