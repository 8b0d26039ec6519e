"""Read answers that something else fetched: `events`, `events_sync`, `assemble`,
`assemble_response` and the buffers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args

import msgspec

from wholecall.arguments.describe import name_nearest
from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.parse import Parsed, parse
from wholecall.assembly.call_builder import Draft
from wholecall.assembly.finish_reasons import read_hint, worse
from wholecall.assembly.verdict import Ending, Judge, ending_of
from wholecall.errors import IncompleteArguments
from wholecall.events import Call, Event, Hint, Outcome, Reason, Rejected, collect
from wholecall.messages import read_offer
from wholecall.protocols.reader import CUT, Chunk, Reader, Tools
from wholecall.protocols.registry import CHAT

if TYPE_CHECKING:
    from wholecall.dialects.rescue import RescuingAssembler

_PREVIEW = 100
_Key = TypeVar("_Key")
_Shown = TypeVar("_Shown")


def is_complete_json(text: str) -> bool:
    """Return True if the text is one whole JSON object, as a call's arguments must be.

    ```python
    from wholecall import is_complete_json

    print(is_complete_json('{"city": "Os'), is_complete_json('{"city": "Oslo"}'))
    ```

    ```text
    False True
    ```
    """
    parsed = parse(text)
    return isinstance(parsed, Parsed) and isinstance(parsed.value, dict)


class ToolCallBuffer:
    """Tool calls by id, each with its arguments as they came, and whether they are whole.

    *Complete* calls have whole arguments. *Finished* calls are complete, and a finish reason came
    after them. A finish reason never makes a cut call complete.
    """

    def __init__(self, finish_reason: str | None = None) -> None:
        self.finish_reason = finish_reason
        self._drafts: dict[str, Draft] = {}
        self._types: dict[str, str] = {}
        self._finished: set[str] = set()
        self._judge = Judge()

    # ── Filling ─────────────────────────────────────────────────────────────────────

    # The signature is that of the buffer which this one replaces.
    def add_tool_call(  # noqa: PLR0917
        self,
        tool_call_id: str,
        tool_name: str,
        arguments: str | Mapping[str, Any] | None = None,
        tool_type: str = "function",
    ) -> None:
        """Add a call, or replace it: the last word on an id counts.

        A known id keeps its name if the new one is empty, and its arguments if none are given.
        A call with new arguments is not finished until the next finish reason.
        """
        known = self._drafts.get(tool_call_id)
        self._types[tool_call_id] = tool_type
        if known is not None and arguments is None:
            known.name = tool_name or known.name
            return
        draft = Draft(len(self._drafts), DEFAULT)
        draft.id = draft.provider_id = tool_call_id
        draft.name = tool_name or (known.name if known is not None else "")
        self._drafts[tool_call_id] = draft
        self._finished.discard(tool_call_id)
        draft.add(arguments)

    def append_arguments(self, tool_call_id: str, additional_arguments: str | None) -> None:
        """Add a piece of text to the arguments of a call."""
        self._draft(tool_call_id).add(additional_arguments)

    def mark_finished_by_finish_reason(
        self, reason: str | None = "stop", *, tool_call_id: str | None = None
    ) -> None:
        """Finish every call, because the finish reason came; or one call, by its id.

        The id of a call in the buffer may be given in place of the reason. None means that no
        finish reason came yet, as in most chunks of a stream: it finishes nothing. An open call
        is not finished by any reason, nor is a whole one by a content filter or an error.
        """
        if tool_call_id is None and reason in self._drafts:
            tool_call_id = reason
        elif reason is not None:
            hint = self._hint()
            if hint is None or worse(hint, read_hint(reason)) is not hint:
                self.finish_reason = reason
        if tool_call_id is not None:
            self._finished.update({tool_call_id} & self._drafts.keys())
        elif reason is not None:
            self._finished.update(self._drafts)

    def clear(self) -> None:
        """Forget every call, as after they were executed."""
        self._drafts.clear()
        self._types.clear()
        self._finished.clear()

    # ── Asking ──────────────────────────────────────────────────────────────────────

    @property
    def buffer(self) -> Mapping[str, dict[str, Any]]:
        """The calls by id, each as `get_tool_call` returns it. Read-only and always current."""
        return _LazyMapping(self._drafts, self._entry)

    @property
    def finished_tool_ids(self) -> frozenset[str]:
        """The ids of the calls after which a finish reason came, whole or not."""
        return frozenset(self._finished)

    def get_tool_call(self, tool_call_id: str) -> dict[str, Any] | None:
        """Return `id`, `name`, `arguments`, `type` and `complete` of a call, or None."""
        return self.buffer.get(tool_call_id)

    def is_complete(self, tool_call_id: str) -> bool:
        """Return True if the call may run: its arguments are one whole object."""
        draft = self._drafts.get(tool_call_id)
        # An open object is not judged, so that asking after each piece costs nothing.
        return (
            draft is not None
            and not draft.arguments.is_open
            and isinstance(self._verdict(draft), Call)
        )

    def is_finished(self, tool_call_id: str) -> bool:
        """Return True if the call is complete, and the finish reason came after it."""
        return tool_call_id in self._finished and self.is_complete(tool_call_id)

    def parse_arguments(self, tool_call_id: str) -> dict[str, Any]:
        """The arguments as a dict, never anything else.

        Raises `IncompleteArguments` (a ValueError) that names the tool, the call and
        what the arguments look like.
        """
        draft = self._draft(tool_call_id)
        verdict = self._verdict(draft)
        if isinstance(verdict, Rejected):
            preview = verdict.raw if len(verdict.raw) <= _PREVIEW else verdict.raw[:_PREVIEW] + "…"
            raise IncompleteArguments(
                f"arguments of tool {draft.name!r} (call {tool_call_id!r}) cannot be used: "
                f"{verdict.detail}; they are {preview!r}"
            )
        return dict(verdict.arguments)

    def get_all_complete_tool_calls(self) -> dict[str, dict[str, Any]]:
        """The calls that may run, by id, in the order in which they were added."""
        return {id: entry for id, entry in self.buffer.items() if entry["complete"]}

    def get_incomplete_tool_calls(self) -> dict[str, dict[str, Any]]:
        """The calls that must not run, by id."""
        return {id: entry for id, entry in self.buffer.items() if not entry["complete"]}

    def get_all_finished_tool_calls(self) -> dict[str, dict[str, Any]]:
        """The calls that are complete and after which the finish reason came, by id."""
        return {id: entry for id, entry in self.buffer.items() if self.is_finished(id)}

    def get_unfinished_tool_calls(self) -> dict[str, dict[str, Any]]:
        """The calls that are cut, or whose finish reason has not come, by id."""
        return {id: entry for id, entry in self.buffer.items() if not self.is_finished(id)}

    def validate_completion_state(self) -> bool:
        """Return True if the finish reason and the calls agree, and every call is whole.

        Return False if a call is incomplete, or if the finish reason promises calls that are
        missing. `stop` with calls is a known habit of providers and is accepted.
        """
        promised = self._hint() is Hint.TOOL_CALLS
        if promised and not self._drafts:
            return False
        return all(self.is_complete(id) for id in self._drafts)

    def __len__(self) -> int:
        return len(self._drafts)

    def __contains__(self, tool_call_id: object) -> bool:
        return tool_call_id in self._drafts

    # ── Inside ──────────────────────────────────────────────────────────────────────

    def _hint(self) -> Hint | None:
        return read_hint(self.finish_reason) if self.finish_reason else None

    def _verdict(self, draft: Draft) -> Call | Rejected:
        return self._judge.judge(draft, ending_of(self._hint()))

    def _draft(self, tool_call_id: str) -> Draft:
        try:
            return self._drafts[tool_call_id]
        except KeyError:
            raise KeyError(f"no tool call {tool_call_id!r} in the buffer") from None

    def _entry(self, draft: Draft) -> dict[str, Any]:
        verdict = self._verdict(draft)
        sent = draft.arguments
        arguments = sent.object() if sent.is_object else sent.text
        if isinstance(verdict, Call) and verdict.repairs:
            # The raw text is not JSON: return the repaired text for parsing.
            arguments = msgspec.json.encode(verdict.arguments).decode()
        return {
            "id": draft.id,
            "name": draft.name,
            "arguments": arguments,
            "type": self._types[draft.id],
            "complete": isinstance(verdict, Call),
        }


class _LazyMapping(Mapping[_Key, _Shown]):
    """A read-only view of drafts: each value is made when it is read."""

    def __init__(self, drafts: Mapping[_Key, Draft], show: Callable[[Draft], _Shown]) -> None:
        self._shown_drafts = drafts
        self._show = show

    def __getitem__(self, key: _Key) -> _Shown:
        return self._show(self._shown_drafts[key])

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._shown_drafts)

    def __len__(self) -> int:
        return len(self._shown_drafts)

    def __repr__(self) -> str:
        return repr(dict(self))


class ContentBlockBuffer:
    """Content blocks by index: pieces in, a whole tool use out when the block stops."""

    def __init__(
        self, max_attempts: int = 3, *, read_markup: Callable[[str], Outcome] | None = None
    ) -> None:
        """`read_markup` reads a block that is written in tags instead of JSON."""
        self.max_attempts = max_attempts
        self._read_markup = read_markup
        self.attempt_count = 0
        """Failed attempts in a row. A block that is whole sets it back."""
        self.last_error: str | None = None
        self._drafts: dict[int, Draft] = {}
        self._ids: dict[int, str] = {}
        self._judge = Judge()

    @property
    def json_buffers(self) -> Mapping[int, str]:
        """The text so far of the blocks that have not stopped, by index. Read-only."""
        return _LazyMapping(self._drafts, lambda draft: draft.arguments.text)

    @property
    def tool_ids(self) -> Mapping[int, str]:
        """The ids of the tool uses since the last reset, by index. Read-only."""
        return MappingProxyType(self._ids)

    # The signature is that of the buffer which this one replaces.
    def handle_content_block_delta(  # noqa: PLR0917
        self, index: int, content: str, tool_id: str | None = None, *, name: str | None = None
    ) -> bool:
        """Add a piece to a block. Nothing is executed from here, ever."""
        draft = self._drafts.get(index)
        if draft is None:
            draft = self._drafts[index] = Draft(len(self._drafts), DEFAULT)
        if tool_id is not None:
            draft.id = draft.provider_id = self._ids[index] = tool_id
        draft.name = name or draft.name
        draft.add(content)
        return True

    def handle_content_block_stop(self, index: int) -> dict[str, Any] | None:
        """End the block: return its tool use if it is whole, None if nothing may run.

        A block that is not whole is a failed attempt; `last_error` has the reason.
        """
        draft = self._drafts.pop(index, None)
        if draft is None:
            return None
        verdict = self._judge_block(draft)
        if isinstance(verdict, Rejected):
            self.attempt_count += 1
            self.last_error = verdict.detail
            return None
        self.attempt_count = 0
        self.last_error = None
        return _tool_use(verdict)

    def _judge_block(self, draft: Draft) -> Call | Rejected:
        text = draft.arguments.text
        if self._read_markup is not None and text.lstrip().startswith("<"):
            return _only_call(self._read_markup(text), draft.id)
        draft.seal()
        return self._judge.judge(_name(draft), Ending.GOOD)

    @property
    def exhausted(self) -> bool:
        """True after too many failed attempts in a row."""
        return self.attempt_count >= self.max_attempts

    def reset(self) -> None:
        """Forget blocks and failures, as after the tools were executed."""
        self._drafts.clear()
        self._ids.clear()
        self.attempt_count = 0
        self.last_error = None


# Only the caller knows the name of a block, and may keep it to himself.
_UNNAMED = "(unnamed)"
_INPUT_KEYS = ("input", "arguments", "parameters")


_SEVERAL = "the block holds several calls, and a block is one tool use"
_NO_CALL = "the block holds no call"


def _only_call(outcome: Outcome, id: str) -> Call | Rejected:
    """The one call of a block that is written in tags."""
    if len(outcome.calls) == 1 and not outcome.rejected:
        return dataclasses.replace(outcome.calls[0], id=id or outcome.calls[0].id)
    if outcome.rejected:
        return outcome.rejected[0]
    return Rejected(reason=Reason.BAD_MARKUP, detail=_SEVERAL if outcome.calls else _NO_CALL)


def _name(draft: Draft) -> Draft:
    draft.name = draft.name or _UNNAMED
    return draft


def _tool_use(call: Call) -> dict[str, Any]:
    name: str | None = call.name
    arguments = dict(call.arguments)
    if name == _UNNAMED:
        name, arguments = _open_envelope(arguments)
    return {"type": "tool_use", "id": call.id, "name": name, "input": arguments}


def _open_envelope(arguments: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """A model that writes its call as JSON puts the name inside: `{"name": …, "input": {…}}`."""
    inner = next((arguments[key] for key in _INPUT_KEYS if key in arguments), None)
    if isinstance(arguments.get("name"), str) and isinstance(inner, dict):
        return arguments["name"], inner
    return None, arguments


# Read answers that your own client fetched: recorded, whole, or as they stream in.
#
# Shells of a few lines around the same core. None of them opens a connection.


RescueWord: TypeAlias = Literal["off", "read_only", "all"]
Messages: TypeAlias = Sequence[Mapping[str, Any]]


class ReadOptions(TypedDict, total=False):
    """Keyword options of `assemble`, `assemble_response`, `events` and `events_sync`."""

    rescue: RescueWord
    """The treatment of a call of an offered tool that the upstream left in the text of its answer.
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
    """Return the outcome of a recorded stream.

    `protocol` is `openai-chat`, `openai-responses`, `anthropic`, `ollama`, `gemini`,
    `gemini-interactions`, `bedrock-converse`, `bedrock-invoke` or `cohere`. `events` are decoded
    payloads (dicts), raw lines of the stream, or its raw bytes; the line `!EOF` says that the
    connection closed there.

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
    """Return the outcome of a whole response that was not streamed, by the same assembler.

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


class ToolUseBuffer(ContentBlockBuffer):
    """Content blocks by index, written as JSON or as XML function calls.

    Pieces in; a whole tool use out when its block stops, and nothing before.
    """

    def __init__(self, max_attempts: int = 3) -> None:
        super().__init__(max_attempts, read_markup=_read_xml)


def should_execute_tool_calls(response: object) -> bool:
    """Return True if a chat completion holds a call that may run, whatever its finish reason
    says."""
    return bool(assemble_response(CHAT, response).calls)


def _make_reader(protocol: str, tools: Tools | None, *, options: ReadOptions) -> Reader:
    known = ReadOptions.__annotations__
    for name in sorted(options.keys() - known.keys()):
        raise TypeError(f"{name!r} is not an option; {name_nearest(name, known)}")
    setting, limit = options.get("rescue", "all"), options.get("max_tokens")
    if setting not in get_args(RescueWord):
        raise ValueError(f"rescue is one of {get_args(RescueWord)}, not {setting!r}")
    offer = read_offer(tools or ())
    specs = None if tools is None else offer.values()
    if setting == "off" or not offer:
        return Reader(protocol, specs, max_tokens=limit)
    # What reads text is half of the package: it is loaded before the stream begins, if at all.
    from wholecall.dialects.provenance import provenance_of_raw  # noqa: PLC0415
    from wholecall.dialects.rescue import RescuingAssembler  # noqa: PLC0415

    def may_start(name: str) -> bool:
        return setting == "all" or offer[name].read_only

    def new_assembler(tools: Tools | None) -> RescuingAssembler:
        provenance = provenance_of_raw(options.get("messages", ()), offer)
        return RescuingAssembler(tools, provenance=provenance, may_start=may_start)

    return Reader(protocol, specs, new_assembler=new_assembler, max_tokens=limit)


def _read_xml(text: str) -> Outcome:
    from wholecall.dialects.rescue import parse_text  # noqa: PLC0415 - see `_make_reader`

    return parse_text("anthropic_xml", text)


def _until_cut(events: Iterable[Chunk]) -> Iterator[Chunk]:
    for event in events:
        if isinstance(event, str) and event == CUT:
            return
        yield event
