"""How a request goes out: natively, in a dialect, or held to a grammar on this machine."""

from __future__ import annotations

import pytest

from wholecall.core.choice import Choice, Mode
from wholecall.core.conversation import Message, Request, Role
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Text
from wholecall.dialects.registry import dialect_named
from wholecall.runs.sending import sender_for

TOOL = ToolSpec("look", {"type": "object", "properties": {"at": {"type": "string"}}})
MESSAGES = (Message(Role.USER, (Text("Look."),)),)


def send(model: str, emulation: str | None) -> Request:
    request = Request(model=model, messages=MESSAGES, tools=(TOOL,))
    return sender_for(model, MESSAGES, emulation=emulation)(request).request


@pytest.mark.parametrize(
    ("model", "emulation", "native", "schema", "grammar"),
    [
        ("gpt-x", None, True, False, False),
        ("gpt-x", "native", True, False, False),
        ("gpt-x", "hermes", False, False, False),
        ("gpt-x", "constrained", False, True, False),
        ("local/mine.gguf", None, False, False, True),
        ("local/mine.gguf", "constrained", False, False, True),
        ("local/mine.gguf", "native", True, False, False),
        ("local/qwen2.5-coder-1.5b", "auto", False, False, False),
    ],
)
def test_the_way_in_which_tools_are_offered(
    model: str, emulation: str | None, *, native: bool, schema: bool, grammar: bool
) -> None:
    sent = send(model, emulation)
    assert bool(sent.tools) is native
    assert (sent.output is not None) is schema
    assert ("grammar" in sent.rest.value if sent.rest else False) is grammar


def test_a_dialect_may_be_given_itself() -> None:
    request = Request(model="m", messages=MESSAGES, tools=(TOOL,))
    sent = sender_for("m", MESSAGES, emulation=dialect_named("hermes"))(request).request
    assert "<tool_call>" in sent.messages[0].text


@pytest.mark.parametrize(
    ("model", "choice", "native"),
    [
        ("local/mine.gguf", Choice(), True),
        ("local/mine.gguf", Choice(Mode.NONE), True),
        ("local/mine.gguf", Choice(Mode.REQUIRED), False),
        ("local/mine.gguf", Choice(Mode.REQUIRED, ("look",)), False),
        ("gpt-x", Choice(Mode.REQUIRED), True),
    ],
)
def test_llama_cpp_is_not_asked_to_force_a_call_by_its_template(
    model: str, choice: Choice, *, native: bool
) -> None:
    request = Request(model=model, messages=MESSAGES, tools=(TOOL,), choice=choice)
    sent = sender_for(model, MESSAGES, emulation="native")(request).request
    assert bool(sent.tools) is native
    assert ("grammar" in sent.rest.value if sent.rest else False) is not native
