"""Read answers that your own client fetched: recorded, whole, or as they stream in.

Shells of a few lines around the same core. None of them opens a connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from wholecall.core import buffer
from wholecall.core.outcome import Outcome, collect
from wholecall.core.spec import read_offer
from wholecall.core.values import Event
from wholecall.dialects.parsing import parse_text
from wholecall.dialects.provenance import provenance_of_raw
from wholecall.dialects.rescuing import Rescue, RescuingAssembler
from wholecall.protocols.reader import CUT, Chunk, Reader, Tools

RescueWord: TypeAlias = Literal["off", "read_only", "all"]
Messages: TypeAlias = Sequence[Mapping[str, Any]]


class ReadOptions(TypedDict, total=False):
    """Keyword options of `assemble`, `assemble_response`, `events` and `events_sync`."""

    rescue: RescueWord
    """What becomes of a call of an offered tool that the upstream left in the text of its answer.
    `all` (the default) makes it a call again, `read_only` only if its tool is a `ToolSpec` that is
    read-only, `off` leaves it in the text. Text is held back while it may become a call."""
    messages: Messages
    """The conversation before the answer, in the protocol's own shape. A call that the answer
    quotes from it stays text."""
    max_tokens: int | None
    """The request's limit of output tokens. An answer with as many tokens was cut off there,
    whatever its finish reason says."""


def assemble(
    protocol: str,
    events: Iterable[Chunk],
    *,
    tools: Tools | None = None,
    **options: Unpack[ReadOptions],
) -> Outcome:
    """What a recorded stream delivers.

    `protocol` is `openai-chat`, `openai-responses`, `anthropic`, `ollama`, `gemini` or
    `bedrock-converse`. `events` are decoded payloads (dicts), raw lines of the stream, or its raw
    bytes; the line `!EOF` says that the connection closed there.

    ```python
    import wholecall

    call = {"type": "tool_use", "id": "c1", "name": "write_file", "input": {}}
    text = {"type": "input_json_delta", "partial_json": '{"path": "notes.txt", "content": "hel'}
    stream = [
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0, "delta": text},
        "!EOF",
    ]
    outcome = wholecall.assemble("anthropic", stream)
    print(outcome.calls, outcome.rejected[0].reason.value)
    ```

    ```text
    () stream_dropped
    ```
    """
    chunks = _until_cut(events)
    return collect(events_sync(chunks, protocol=protocol, tools=tools, **options))


def assemble_response(
    protocol: str,
    body: Mapping[str, Any] | bytes | str | object,
    *,
    tools: Tools | None = None,
    **options: Unpack[ReadOptions],
) -> Outcome:
    """What a whole, not streamed answer delivers. It goes through the same assembler.

    ```python
    import wholecall

    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    message = {"tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    for call in wholecall.assemble_response("openai-chat", answer).calls:
        print(call.name, call.arguments)
    ```

    ```text
    weather {'city': 'Oslo'}
    ```
    """
    reader = _make_reader(protocol, tools, options=options)
    return collect([*reader.feed_response(body), *reader.end()])


def events_sync(
    chunks: Iterable[Chunk],
    *,
    protocol: str,
    tools: Tools | None = None,
    **options: Unpack[ReadOptions],
) -> Iterator[Event]:
    """The events of a stream that you read yourself.

    ```python no-run
    stream = client.chat.completions.create(model="gpt-x", messages=messages, stream=True)
    for event in wholecall.events_sync(stream, protocol="openai-chat", tools=tools):
        match event:
            case wholecall.Text(text):
                print(text, end="")
            case wholecall.Released(call):
                results.append(run_tool(call.name, call.arguments))
            case wholecall.Rejected():
                results.append(wholecall.feedback(event, None))
    ```
    """
    reader = _make_reader(protocol, tools, options=options)
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()


async def events(
    chunks: AsyncIterable[Chunk],
    *,
    protocol: str,
    tools: Tools | None = None,
    **options: Unpack[ReadOptions],
) -> AsyncIterator[Event]:
    """The events of a stream that you read yourself, asynchronously: `events_sync` with
    `async for`."""
    reader = _make_reader(protocol, tools, options=options)
    async for chunk in chunks:
        for event in reader.feed(chunk):
            yield event
    for event in reader.end():
        yield event


class ToolUseBuffer(buffer.ToolUseBuffer):
    """Content blocks by index, written as JSON or as XML function calls.

    Pieces in; a whole tool use out when its block stops, and nothing before.
    """

    def __init__(self, max_attempts: int = 3) -> None:
        super().__init__(max_attempts, read_markup=partial(parse_text, "anthropic_xml"))


def should_execute_tool_calls(response: object) -> bool:
    """Return True if a chat completion holds a call that may run, whatever its finish reason
    says."""
    return bool(assemble_response("openai-chat", response).calls)


def _make_reader(protocol: str, tools: Tools | None, *, options: ReadOptions) -> Reader:
    unknown = options.keys() - ReadOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(ReadOptions.__annotations__)
        raise TypeError(f"{min(unknown)!r} is not an option; there are {known}")
    setting, limit = Rescue(options.get("rescue", "all")), options.get("max_tokens")
    if setting is Rescue.OFF:
        return Reader(protocol, tools, max_tokens=limit)
    offer = read_offer(tools or ())

    def may_start(name: str) -> bool:
        return setting is Rescue.ALL or offer[name].read_only

    def new_assembler(tools: Tools | None) -> RescuingAssembler:
        provenance = provenance_of_raw(options.get("messages", ()), offer)
        return RescuingAssembler(tools, provenance=provenance, may_start=may_start)

    specs = None if tools is None else offer.values()
    return Reader(protocol, specs, new_assembler=new_assembler, max_tokens=limit)


def _until_cut(events: Iterable[Chunk]) -> Iterator[Chunk]:
    for event in events:
        if isinstance(event, str) and event == CUT:
            return
        yield event
