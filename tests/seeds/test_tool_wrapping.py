"""The samples of "Tool Wrapping Analysis in LiteLLM Completion".

The document shows how a model without tools is made to call some: they are written into its
prompt, and it answers with JSON. Writing the prompt is tested where that is done; here is what
comes back, and the choices. Each docstring names the document's section.
"""

from typing import Any

import pytest

from wholecall import assemble_response, parse_text
from wholecall.errors import InvalidChoice
from wholecall.messages import Mode, read_offer
from wholecall.protocols.registry import decode_choice as decode

GET_WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a given location",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}
WRITTEN = '{"name": "get_weather", "arguments": {"location": "New York"}}'


def test_the_tool_of_the_demo_is_read() -> None:
    """2, Evidence from the Demo: the definition, as it stands among the parameters."""
    (spec,) = read_offer([GET_WEATHER]).values()
    assert (spec.name, spec.description) == (
        "get_weather",
        "Get the current weather for a given location",
    )
    assert spec.parameters["required"] == ["location"]


@pytest.mark.parametrize("text", [WRITTEN, f"```json\n{WRITTEN}\n```", f"\n{WRITTEN}\n"])
def test_a_call_in_the_format_of_the_prompt(text: str) -> None:
    """3 and 4, Function Call Prompt Template: the JSON that it asks for is a call again."""
    outcome = parse_text("auto", text, tools=[GET_WEATHER])
    assert [(call.name, dict(call.arguments)) for call in outcome.calls] == [
        ("get_weather", {"location": "New York"})
    ]
    assert outcome.text.strip() == ""


def test_a_call_in_the_text_of_a_chat_answer() -> None:
    """3, Prompt Injection Process: also where the answer is a message without tool_calls."""
    body = {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": WRITTEN},
                "finish_reason": "stop",
            }
        ]
    }
    outcome = assemble_response("openai-chat", body, tools=[GET_WEATHER])
    assert [call.name for call in outcome.calls] == ["get_weather"]
    assert outcome.finish_reason == "tool_calls"


def test_an_answer_without_tools_stays_text() -> None:
    """5, Message Structure Evolution: with no tools on offer, nothing is a call."""
    outcome = parse_text("auto", "The capital of France is Paris.", tools=[])
    assert (outcome.calls, outcome.text) == ((), "The capital of France is Paris.")


# the value, the mode, the names that may be called; all if empty
CHOICES: list[tuple[Any, Mode, tuple[str, ...]]] = [
    ("auto", Mode.AUTO, ()),
    ("none", Mode.NONE, ()),
    ("required", Mode.REQUIRED, ()),
    (
        {"type": "function", "function": {"name": "get_weather"}},
        Mode.REQUIRED,
        ("get_weather",),
    ),
]


@pytest.mark.parametrize(("value", "mode", "names"), CHOICES, ids=["auto", "none", "all", "one"])
def test_tool_choice_handling(value: Any, mode: Mode, *, names: tuple[str, ...]) -> None:
    """Implementation Details, 1: the four kinds of `tool_choice`."""
    choice = decode("openai-chat", {"tool_choice": value}, offered=["get_weather"])
    assert (choice.mode, choice.names) == (mode, names)


@pytest.mark.parametrize("value", ["always", 5, {"type": "function"}, {"type": "weather"}])
def test_tool_choice_validation(value: Any) -> None:
    """Implementation Details, 2; Code Flow, 1: what is no choice is refused."""
    with pytest.raises(InvalidChoice):
        decode("openai-chat", {"tool_choice": value}, offered=["get_weather"])


def test_response_handling() -> None:
    """Implementation Details, 3: `content` may be null; each call has an id, a name, a text."""
    call = {
        "id": "call_1",
        "function": {"name": "get_weather", "arguments": '{"location": "New York"}'},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    outcome = assemble_response("openai-chat", body, tools=[GET_WEATHER])
    (read,) = outcome.calls
    assert (read.id, read.name, read.raw) == ("call_1", "get_weather", '{"location": "New York"}')
    assert outcome.text == ""
