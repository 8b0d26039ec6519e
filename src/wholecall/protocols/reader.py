"""From the chunks of one answer to events: framing, decoding, assembling.

The reader does no IO. It is fed what its caller has: bytes as they come from the
socket, lines, decoded payloads, or the objects of a client library.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.assembler import Assembler
from wholecall.assembly.verdict import OVERRUN
from wholecall.errors import ProtocolError
from wholecall.events import (
    Call,
    CallDelta,
    Delta,
    Ended,
    Event,
    Fault,
    FaultKind,
    Followed,
    Hint,
    HintGiven,
    Inconsistent,
    LimitReached,
    OfChoice,
    Opened,
    Outcome,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Terminated,
    Text,
    Usage,
    merge_usage,
)
from wholecall.messages import Choice, Mode, ReadOffer, ToolSpec, obeyed
from wholecall.protocols.decoder import Payload, PayloadDecoder, count_reasoning
from wholecall.protocols.fast_path import RepeatedChunks, coalesce
from wholecall.protocols.registry import WireProtocol, find_protocol
from wholecall.protocols.sse_ndjson import Framing

Chunk: TypeAlias = bytes | str | Mapping[str, Any] | object
"""Raw bytes or text of the stream, one line of it, a decoded payload, or a client's object."""
Tools: TypeAlias = Iterable[ToolSpec | Mapping[str, Any]] | ReadOffer
CUT = "!EOF"
"""Marks, among recorded chunks, where the connection closed."""
_BUFFERS = (bytearray, memoryview)
_BLANK_LINE = b"\n\n"
_TEXT = (bytes, str, *_BUFFERS)
# The end of the stream and its failure concern every choice of an answer.
_FOR_ALL = frozenset({Terminated, Fault})
_NOTED = _FOR_ALL | {CallDelta, Usage}
_SAID = frozenset({Text, Reasoning, ProviderBlock})
_CROWDED = Fault(FaultKind.PROTOCOL, f"the answer has more than {DEFAULT.choices} choices")


# Some servers parse the model's calls themselves and answer with an error if they fail. Older ones
# quote the model's answer, or its rest from the place on that could not be parsed; newer ones only
# say what was wrong with it. Either way the model has answered, and the same request would only
# bring a mistake of the same kind.

_QUOTED = (
    re.compile(r"Failed to parse input at pos \d+: (?P<said>.*)", re.DOTALL),  # llama.cpp
    re.compile(r"error parsing tool call: raw='(?P<said>.*)', err=", re.DOTALL),  # Ollama
)
_UNREADABLE = re.compile(
    r"The model produced output that does not match the expected \S+ format"  # llama.cpp
    # Ollama, a parser for each family of models
    r"|error parsing tool call\b"
    r"|llama-server returned invalid tool call arguments for "
    r"|XML syntax error on line \d+: "
    r"|expected element type <\w+> but have <\w+>"
    r"|(?:incomplete|invalid|failed to parse) (?:\w+ ){0,2}tool call(?! arguments as JSON| id)"
    r"|failed to parse function call \""
    r"|mismatched arg_key and arg_value counts"
    # Groq
    r"|tool call validation failed: "
)
_FAILED_GENERATION = "failed_generation"  # Groq's field
_GROQ_CODES = frozenset({"tool_use_failed", "output_parse_failed"})
_OWN_WORDS = "Tool use failed: "  # Groq's, in the place of the model's answer
_LONGEST_DETAIL = 200
_JSON = json.JSONDecoder()
_DEEPEST = 6
"""Objects in objects and texts of an error that are searched."""


def quoted_answer(message: str, error: Any, *, blames_request: bool = False) -> str | None:
    """Return the model's answer that an upstream's error quotes: empty if the error only says that
    it cannot be read, None if it is about something else. Where the status blames the request,
    words alone do not show that the error is about the answer."""
    texts = [(message, {}), *((str(each.get("message")), each) for each in _find_errors(error))]
    found = [_find_quoted(text, each, blames_request=blames_request) for text, each in texts]
    known = [each for each in found if each is not None]
    return next(filter(None, known), "") if known else None


def _find_quoted(message: str, error: Mapping[str, Any], *, blames_request: bool) -> str | None:
    said = error.get(_FAILED_GENERATION)
    if isinstance(said, str) and said.strip() and not said.startswith(_OWN_WORDS):
        return said
    for pattern in _QUOTED:
        quoted = pattern.search(message)
        if quoted is not None:
            return quoted["said"] if quoted["said"].strip() else ""
    says_so = not blames_request and _UNREADABLE.search(message)
    return "" if says_so or str(error.get("code")) in _GROQ_CODES else None


def _find_errors(error: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Every object of an error. Gateways pass the body of another server on as a text, alone or
    after words of their own."""
    if isinstance(error, str) and _FAILED_GENERATION in error:
        with suppress(ValueError, RecursionError):
            error, _ = _JSON.raw_decode(error, error.find("{"))
    if isinstance(error, Mapping) and depth < _DEEPEST:
        yield error
        for name, value in error.items():
            if name != _FAILED_GENERATION:
                yield from _find_errors(value, depth + 1)


class _Input(enum.Enum):
    QUOTABLE = "quotable"
    """There are tools, and no call has come: an error may quote the answer."""
    PLAIN = "plain"
    BROKEN = "broken"
    """Nothing after broken framing can be trusted."""
    QUOTED = "quoted"
    """The answer ended with a quoted one."""


_UNREAD = frozenset({_Input.BROKEN, _Input.QUOTED})


class TurnAssembler(Protocol):
    """Builds the calls of one turn: `Assembler`, or a wrapper of one."""

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""

    def end(self) -> list[Event]:
        """Settle every draft."""


class Reader:
    """Reads one answer in one protocol."""

    def __init__(
        self,
        protocol: str,
        tools: Tools | None = None,
        *,
        new_assembler: Callable[[Tools | None], TurnAssembler] = Assembler,
        max_tokens: int | None = None,
    ) -> None:
        """`tools` may be an offer that was read before. `max_tokens` is the request's limit of
        output tokens, by whatever name it went out."""
        self._protocol = find_protocol(protocol)
        if tools is not None and not isinstance(tools, ReadOffer):
            tools = list(tools)
        self._decoder = _make_decoder(self._protocol, tools or ())
        self._usual = self._protocol.usual
        """Oddities that are normal in this protocol."""
        self._stream: tuple[Framing, RepeatedChunks] | None = None
        """Needed for a stream, not for a whole answer."""
        self._new_assembler = partial(new_assembler, tools)
        self._assembler = self._new_assembler()
        self._max_tokens = max_tokens
        self._usage: Usage | None = None
        self._parsed_last: set[int] = set()
        """The choices whose last piece so far is a call that does not show its end."""
        self._others: dict[int, TurnAssembler] = {}
        self._reported: list[Event] = []
        """What is reported once."""
        self.is_terminated = False
        """True if the answer has sent its own end: nothing after it is part of it."""
        self._over = False
        self._input = _Input.QUOTABLE if tools else _Input.PLAIN

    def feed(self, chunk: Chunk) -> list[Event]:
        """Take what came; return what it brought about."""
        if self._over:
            raise ProtocolError("the stream is over: each answer needs a new Reader")
        # The usual chunk is a dict; of that it is seen at once.
        if type(chunk) is not dict and isinstance(chunk, _TEXT):
            framing, stencil = self._stream or self._begin_stream()
            return self._framed(partial(framing.feed, chunk), stencil)
        if self._stream is None:
            return self._decoded(self._decoder.decode(chunk))
        # A payload among lines is an event of its own, and so are the lines before it.
        framing, stencil = self._stream
        events = self._framed(partial(framing.feed, _BLANK_LINE), stencil)
        return events + self._decoded(stencil.decode([chunk]))

    def feed_response(self, body: Chunk) -> list[Event]:
        """Take a whole answer that was not streamed."""
        if isinstance(body, _BUFFERS):
            body = bytes(body)
        self._usual = self._protocol.usual_whole
        return self._decoded(self._decoder.decode_response(body))

    def end(self) -> list[Event]:
        """The stream is over: settle everything, once; there is nothing to say a second time."""
        if self._over:
            return []
        self._over = True
        if self._input is _Input.QUOTED:
            return []
        events: list[Event] = []
        if self._stream is not None:
            framing, stencil = self._stream
            events += self._framed(framing.end, stencil)
        if self._is_at_limit():
            events += self._assembler.feed(LimitReached())
        for choice, assembler in self._others.items():
            events += (OfChoice(choice, event) for event in assembler.end())
        return self._without_usual(events + self._assembler.end())

    def _begin_stream(self) -> tuple[Framing, RepeatedChunks]:
        self._stream = self._protocol.framing(), RepeatedChunks(self._decoder)
        return self._stream

    def _framed(self, take: Callable[[], list[Payload]], stencil: RepeatedChunks) -> list[Event]:
        if self._input in _UNREAD:
            return []
        try:
            payloads = take()
        except ProtocolError as error:
            self._input = _Input.BROKEN
            return self._decoded([Fault(FaultKind.PROTOCOL, str(error))])
        if not payloads:
            return []
        deltas = stencil.decode(payloads)
        return self._decoded(coalesce(deltas) if len(deltas) > 1 else deltas)

    def _decoded(self, deltas: Iterable[Delta | OfChoice[Delta]]) -> list[Event]:
        events: list[Event] = []
        if self._input is _Input.QUOTED:
            return events
        feed = self._assembler.feed
        for delta in deltas:
            if isinstance(delta, OfChoice):
                events += self._feed_other(delta.choice, delta.value)
                continue
            if self._parsed_last:
                self._follow(0, delta)
            if type(delta) is Fault and self._input is _Input.QUOTABLE:
                said = quoted_answer(delta.message, delta.native)
                if said is not None:
                    return self._without_usual(events + self.read_quoted(said, delta.message))
            events += feed(delta)
            if type(delta) in _NOTED:
                events += self._note(0, delta)
        return self._without_usual(events)

    def read_quoted(self, said: str, why: str) -> list[Event]:
        """Read an answer that the upstream could not, from its error, and end with it.

        What the error quotes is text, so that a call in it is found by the rules for text. If there
        is none, the answer was a call that cannot be read.
        """
        well: tuple[Delta, ...] = (Text(said), HintGiven(Hint.STOP, "stop"), Terminated())
        events: list[Event] = []
        for delta in well if said else (Fault(FaultKind.UPSTREAM_ERROR, why),):
            events += self._assembler.feed(delta)
        events += self._assembler.end()
        self.is_terminated, self._input = True, _Input.QUOTED
        if any(isinstance(event, Released | Rejected) for event in events):
            return events
        reason = Reason.BAD_MARKUP if said else Reason.MALFORMED_BY_PROVIDER
        rejected = Rejected(reason=reason, detail=why[:_LONGEST_DETAIL], raw=said)
        return [rejected, *(event for event in events if not isinstance(event, Text))]

    def _note(self, choice: int, delta: Delta) -> list[Event]:
        """Keep what the deltas after this one, or the end, need to know of it."""
        if isinstance(delta, CallDelta):
            if self._input is _Input.QUOTABLE:
                self._input = _Input.PLAIN
            if not isinstance(delta.arguments, str):
                self._parsed_last.add(choice)
        elif isinstance(delta, Usage):
            self._usage = merge_usage(self._usage, delta)
        elif not choice:
            return self._tell_all(delta)
        return []

    def _follow(self, choice: int, delta: Delta) -> None:
        """Notify the assembler, once, that the answer continues after its last call.

        Only here do all deltas pass in order: readers that search the text for calls hold a part of
        it back.
        """
        if choice in self._parsed_last and type(delta) in _SAID and _says_something(delta):
            self._parsed_last.discard(choice)
            assembler = self._others[choice] if choice else self._assembler
            assembler.feed(Followed())

    def _is_at_limit(self) -> bool:
        """Return whether the answer has as many output tokens as the request allowed.

        With several choices the count is that of all of them, and says nothing of one.
        """
        usage, limit = self._usage, self._max_tokens or 0
        if self._others or usage is None or usage.output_tokens is None or limit <= 0:
            return False
        beyond = usage.output_tokens - limit
        # What goes beyond the limit can only be reasoning that it does not count.
        return beyond == 0 or beyond - count_reasoning(usage.native) >= 0

    def _without_usual(self, events: list[Event]) -> list[Event]:
        usual = self._usual
        if not usual:
            return events
        return [
            event
            for event in events
            if type(event) is not Inconsistent or event.oddity not in usual
        ]

    def _tell_all(self, delta: Delta) -> list[Event]:
        self.is_terminated = self.is_terminated or (isinstance(delta, Terminated) and delta.closes)
        return [event for choice in self._others for event in self._feed_other(choice, delta)]

    def _feed_other(self, choice: int, delta: Delta) -> list[Event]:
        assembler = self._others.get(choice)
        if assembler is None:
            if self.is_terminated:  # a choice that begins after the answer's end is left out
                return [OVERRUN] if self._is_new(OVERRUN) else []
            if len(self._others) + 1 >= DEFAULT.choices:
                return self._decoded([_CROWDED]) if self._is_new(_CROWDED) else []
            assembler = self._others[choice] = self._new_assembler()
        self._follow(choice, delta)
        self._note(choice, delta)
        return [OfChoice(choice, event) for event in assembler.feed(delta)]

    def _is_new(self, event: Event) -> bool:
        """Return True if an event was not reported before; it is from now on."""
        if event in self._reported:
            return False
        self._reported.append(event)
        return True


def read_whole_answer(protocol: str, body: bytes) -> list[Event]:
    """Return the events of a whole answer to a request without tools."""
    read_plain = find_protocol(protocol).read_plain
    events = None if read_plain is None else read_plain(body)
    if events is None:
        reader = Reader(protocol)
        events = [*reader.feed_response(body), *reader.end()]
    return events


def _make_decoder(protocol: WireProtocol, tools: Tools) -> PayloadDecoder:
    make = protocol.decoder_for
    if make is None or not tools:
        return protocol.decoder()
    known = tools.values() if isinstance(tools, ReadOffer) else tools
    specs = [tool for tool in known if isinstance(tool, ToolSpec)]
    return make(specs) if specs else protocol.decoder()


def _says_something(delta: Delta) -> bool:
    if isinstance(delta, Text | Reasoning):
        return bool(delta.text.strip())
    return isinstance(delta, ProviderBlock)


# ── The choice enforced: what an answer may not call is not released ──────────────────
#
# Upstreams promise to keep a choice, and not all of them do; a model that is prompted
# promises nothing. So released calls go through a gate. What it refuses becomes a rejection
# with words for the model, and the turn's end says what was really delivered.


MOST_TIMES_ASKED = 2
"""Retries for an answer that obeys the choice, or that has the required form. A model that refuses
twice does not obey the third time."""


class ChoiceRefusal(NamedTuple):
    """The reason why a whole call must not run."""

    reason: Reason
    detail: str


PLANNED = ChoiceRefusal(
    Reason.BAD_MARKUP, "the call stood inside of reasoning, which is no place to call from"
)
_SILENCE = ChoiceRefusal(Reason.UNKNOWN_TOOL, "no tool may be called in this answer")
_ONE_AT_A_TIME = ChoiceRefusal(
    Reason.LIMIT, "only one call may stand in an answer, and this was not the first"
)


class ChoiceGate:
    """Lets the calls of one answer pass, or refuses them."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._open: set[int] = set()
        self._refused: dict[int, ChoiceRefusal] = {}
        self._count = 0

    @property
    def passed(self) -> bool:
        """True if a call has been let through."""
        return self._count > 0

    def refuse(self, number: int, refusal: ChoiceRefusal) -> None:
        """Let this call not pass, if it ever comes to be released."""
        self._refused.setdefault(number, refusal)

    def judge(self, event: Event) -> Event:
        """Return the event as the client may see it."""
        judge = _JUDGES.get(type(event))
        return event if judge is None else judge(self, event)

    def _opened(self, event: Opened) -> Event:
        self._open.add(event.number)
        return event

    def _settled(self, event: Rejected | Repeated) -> Event:
        self._open.discard(event.number)
        return event

    def _released(self, event: Released) -> Event:
        call = event.call
        self._open.discard(call.number)
        refusal = self._refused.get(call.number) or self._breach(call)
        if refusal is not None:
            return reject(call, refusal)
        self._count += 1
        return event

    def _breach(self, call: Call) -> ChoiceRefusal | None:
        choice = self._choice
        if choice.mode is Mode.NONE:
            return _SILENCE
        allowed = (*choice.names, *(special.name for special in choice.specials))
        if allowed and call.name not in allowed:
            return ChoiceRefusal(Reason.UNKNOWN_TOOL, f"only {_list(allowed)} may be called here")
        # A call that is still being built comes before this one, and counts as the first.
        first = not self.passed and not any(number < call.number for number in self._open)
        return None if choice.parallel or first else _ONE_AT_A_TIME

    def _ended(self, event: Ended) -> Event:
        """No call passed: then none was delivered, whatever the assembler released."""
        if event.finish_reason != "tool_calls" or self.passed:
            return event
        reason = "length" if event.hint is Hint.LENGTH else "stop"
        return msgspec.structs.replace(event, finish_reason=reason)


_JUDGES: dict[type[Event], Callable[[ChoiceGate, Any], Event]] = {
    Opened: ChoiceGate._opened,
    Rejected: ChoiceGate._settled,
    Repeated: ChoiceGate._settled,
    Released: ChoiceGate._released,
    Ended: ChoiceGate._ended,
}
JUDGED = frozenset(_JUDGES)
"""The events that a gate may change, or learns from. Others pass."""


class EnforcingAssembler:
    """An assembler whose calls pass a gate."""

    def __init__(self, choice: Choice, assembler: TurnAssembler) -> None:
        self._gate = ChoiceGate(choice)
        self._assembler = assembler

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""
        return [self._gate.judge(event) for event in self._assembler.feed(delta)]

    def end(self) -> list[Event]:
        """Settle every draft."""
        return [self._gate.judge(event) for event in self._assembler.end()]


def ask_again(choice: Choice, outcome: Outcome) -> str | None:
    """Return the request to a model whose answer violated the choice; None if the answer can be
    used.

    If a call may run, or the model learns about its mistake from a result, the run continues
    anyway. The model is asked again if it had to call and did not, and if it made only forbidden
    calls. At most `MOST_TIMES_ASKED` times: a run respects that, and so should callers of this
    function.
    """
    if outcome.calls or outcome.error is not None:
        return None
    if choice.mode is Mode.NONE and outcome.text.strip():
        return None
    breach = obeyed(choice, outcome.rejected)
    return None if breach is None else breach.message


def _list(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names if name) or "the upstream's own tools"


def reject(call: Call, refusal: ChoiceRefusal) -> Rejected:
    """Reject a call that must not run."""
    return Rejected(
        reason=refusal.reason,
        detail=refusal.detail,
        name=call.name,
        id=call.id,
        raw=call.raw,
        number=call.number,
        provider_id=call.provider_id,
        extras=call.extras,
    )
