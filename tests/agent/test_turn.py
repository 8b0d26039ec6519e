"""How a request goes out: natively, in a dialect, or held to a grammar on this machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
import pytest

from scripted import says
from wholecall.agent.api import ask_sync
from wholecall.agent.turn import MANY_CHARACTERS, MANY_PARTS, RescueRule, Turn, sender_for
from wholecall.dialects.dialect_registry import dialect_named
from wholecall.dialects.rescue import Rescue
from wholecall.events import Outcome, Text, collect
from wholecall.messages import CallResult, Choice, Message, Mode, Request, Role, ToolSpec
from wholecall.protocols.anthropic.request import MAX_TOKENS
from wholecall.protocols.reader import Chunk, Reader
from wholecall.tools.function_tool import tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Answer
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer

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


# ── The limit of the request is known to whoever reads the answer ───────────────────


async def _nothing() -> AsyncIterator[Chunk]:
    """The chunks of an answer that is fed by hand."""
    chunks: tuple[Chunk, ...] = ()
    for chunk in chunks:
        yield chunk


def read(protocol: str, body: Any, *, max_tokens: int | None, emulation: str) -> Outcome:
    request = Request(model="m", messages=MESSAGES, tools=(TOOL,), max_tokens=max_tokens)
    sent = sender_for("m", MESSAGES, emulation=emulation)(request)
    answer = Answer(protocol=protocol, streamed=False, chunks=_nothing())
    reader = sent.make_reader(answer)
    return collect([*reader.feed_response(body), *reader.end()])


def claude(tokens: int) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": "a"}}
    usage = {"input_tokens": 1, "output_tokens": tokens}
    return {"type": "message", "content": [call], "stop_reason": "tool_use", "usage": usage}


def chat(tokens: int) -> dict[str, Any]:
    message = {"content": "<tool_call>\n<function=look>\n<parameter=at>\na\n</parameter>\n"}
    choices = [{"message": message, "finish_reason": "stop"}]
    return {"choices": choices, "usage": {"completion_tokens": tokens}}


@pytest.mark.parametrize(
    ("protocol", "body", "max_tokens", "emulation"),
    [
        ("anthropic", claude, 50, "native"),
        ("anthropic", claude, None, "native"),
        ("openai-chat", chat, 50, "native"),
        ("openai-chat", chat, 50, "qwen3_xml"),
    ],
)
def test_an_answer_at_the_limit_of_its_request_was_cut(
    *, protocol: str, body: Any, max_tokens: int | None, emulation: str
) -> None:
    limit = max_tokens or MAX_TOKENS
    whole = read(protocol, body(limit - 1), max_tokens=max_tokens, emulation=emulation)
    assert [call.name for call in whole.calls] == ["look"]
    cut = read(protocol, body(limit), max_tokens=max_tokens, emulation=emulation)
    assert (cut.calls, cut.finish_reason) == ((), "length")
    assert [each.reason.value for each in cut.rejected] == ["truncated"]


# the setting, whether a call in a text starts a tool that changes things, one that does not, and
# one of the client
RULES: list[tuple[Rescue | None, bool, bool, bool]] = [
    (None, False, True, True),
    (Rescue.READ_ONLY, False, True, False),
    (Rescue.ALL, True, True, True),
]


@pytest.mark.parametrize(("rescue", "writes", "reads", "handed"), RULES)
def test_what_a_call_in_a_text_may_start(
    rescue: Rescue | None, *, writes: bool, reads: bool, handed: bool
) -> None:
    @tool
    def write() -> None:
        """Change things."""

    @tool(read_only=True)
    def read() -> None:
        """Change nothing."""

    rule = RescueRule(Toolbox([write, read, TOOL]), rescue)
    assert [rule.may_start(name) for name in ("write", "read", "look")] == [writes, reads, handed]


LEAKED = '<tool_call>{"name": "act", "arguments": {"at": "noon"}}</tool_call>'
# the setting, how often the tool runs, the final answer
RUNS = [("off", 0, LEAKED), ("read_only", 0, "Done."), ("all", 1, "Done.")]


@pytest.mark.parametrize(("rescue", "times", "said"), RUNS)
def test_a_run_goes_on_after_a_call_that_was_written_as_text(
    rescue: Literal["off", "read_only", "all"], times: int, *, said: str
) -> None:
    ran: list[str] = []

    @tool
    def act(at: str) -> str:
        """Act."""
        ran.append(at)
        return "ok"

    upstream = ReplayUpstream([says(LEAKED), says("Done.")])
    result = ask_sync("m", "Act.", tools=[act], upstream=upstream, rescue=rescue)
    assert (len(ran), result.text) == (times, said)
    told = [part for each in result.messages for part in each.parts if isinstance(part, CallResult)]
    assert ["wrote it as text" in each.result.text for each in told] == [times == 0] * len(told)
    assert bool(told) is (rescue != "off")


# ── What is large is read in a thread ──────────────────────────────────────────────


def talk(count: int, text: str = "Look.") -> tuple[Message, ...]:
    return tuple(Message(Role.USER, (Text(text),)) for _ in range(count))


# the messages of a request, whether work on all of it would hold up others
SIZES = [
    (talk(1), False),
    (talk(MANY_PARTS - 1), False),
    (talk(MANY_PARTS), True),  # with its tool
    (talk(1, "x" * MANY_CHARACTERS), False),
    (talk(2, "x" * MANY_CHARACTERS), True),
]


@pytest.mark.parametrize(("messages", "large"), SIZES)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_large_conversation_is_read_in_a_thread(
    messages: tuple[Message, ...], *, large: bool, streamed: bool
) -> None:
    request = Request(model="m", messages=messages, tools=(TOOL,), stream=streamed)
    sent = sender_for("m", messages)(request)
    threads: set[int] = set()

    def make_reader(answer: Answer) -> Reader:
        threads.add(threading.get_ident())
        return sent.make_reader(answer)

    scripted = says("Done.") if streamed else ScriptedAnswer(body=chat(1))
    turn = Turn(emit=lambda _: None, start=lambda _: None, room=nothing)
    upstream = ReplayUpstream([scripted])
    answered = asyncio.run(
        turn.read(upstream, msgspec.structs.replace(sent, make_reader=make_reader))
    )
    assert answered.outcome.error is None
    assert (threads == {threading.get_ident()}) is not large


async def nothing() -> None:
    """Do not wait."""


@pytest.mark.parametrize("emulation", ["native", "hermes", "constrained"])
def test_the_vocabulary_of_new_tools_is_built_while_the_model_is_asked(emulation: str) -> None:
    tools = (ToolSpec(f"new_{emulation}"),)
    request = Request(model="m", messages=MESSAGES, tools=tools)
    sent = sender_for("m", MESSAGES, emulation=emulation)(request)
    assert sent.prepare is not None
    turn = Turn(emit=lambda _: None, start=lambda _: None, room=nothing)
    asyncio.run(turn.read(ReplayUpstream([says("Done.")]), sent))
    assert sender_for("m", MESSAGES, emulation=emulation)(request).prepare is None


def test_where_no_call_is_searched_for_no_vocabulary_is_built() -> None:
    request = Request(
        model="m", messages=MESSAGES, tools=(ToolSpec("unused"),), choice=Choice(Mode.NONE)
    )
    assert sender_for("m", MESSAGES)(request).prepare is None
