"""Turn a request with tools into one without, its history rewritten as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, TypeAlias

from wholecall.arguments.compiled_schema import prepare
from wholecall.arguments.normalize_schema import Node
from wholecall.arguments.validate import require_admissible
from wholecall.assembly.assembler import Assembler
from wholecall.dialects.dialect import Dialect, Template, encode_calls, encode_result, template_of
from wholecall.dialects.dialect_registry import DIALECTS, dialect_named
from wholecall.dialects.emulation.constrained import WORDS, answer_schema, write_grammar
from wholecall.dialects.emulation.emulated_answer import EmulatedAssembler, opening
from wholecall.dialects.emulation.prompt import (
    Prompt,
    default_prompt,
    estimate_tokens,
    without_prompt,
    write_prompt,
    write_silence,
)
from wholecall.dialects.engine import CallPosition, DialectKey, Engine
from wholecall.dialects.formats.json_formats import CONSTRAINED, OBJECT
from wholecall.dialects.grammars.json_calls import REPLY, JsonCalls
from wholecall.dialects.provenance import provenance_of, provenance_of_raw
from wholecall.errors import UnreadableRequest, UnusableDialect
from wholecall.events import Problem, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Mode,
    Native,
    Offer,
    OutputSchema,
    Part,
    PastCall,
    Prompted,
    Request,
    Role,
    read_offer,
)
from wholecall.protocols.reader import ChoiceGate, Reader, Tools, TurnAssembler
from wholecall.protocols.registry import decode_choice, encode_choice, limit_of
from wholecall.protocols.request_fields import speak

# What a dialect cannot carry (a closing tag inside a value) is written as plain JSON.
_PLAIN = Template(OBJECT, between="\n")


def rewrite_history(messages: Iterable[Message], template: Template) -> tuple[Message, ...]:
    """The same history with its calls and results as text."""
    whole = tuple(messages)
    calls = _past_calls(whole)
    told: list[Message] = []
    for holds_results, group in groupby(whole, _holds_results):
        if holds_results:
            told.append(_tell_results(list(group), calls, template=template))
        else:
            told += (_tell_calls(message, template) for message in group)
    return tuple(_join_neighbours(told, written_by_caller={id(message) for message in whole}))


def _holds_results(message: Message) -> bool:
    return any(isinstance(part, CallResult) for part in message.parts)


def _past_calls(messages: Iterable[Message]) -> dict[str, tuple[int, str]]:
    """The place and the name of every call, by its id."""
    parts = (part for message in messages for part in message.parts)
    calls = (part for part in parts if isinstance(part, PastCall))
    return {call.id: (place, call.name) for place, call in enumerate(calls)}


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _tell_calls(message: Message, template: Template) -> Message:
    if not any(isinstance(part, PastCall) for part in message.parts):
        return message
    return Message(message.role, tuple(_join_texts(_write_calls(message.parts, template))))


def _write_calls(parts: Iterable[Part], template: Template) -> Iterator[Part]:
    """Calls that follow one another are written together, as one answer has them."""
    for is_call, group in groupby(parts, lambda part: isinstance(part, PastCall)):
        if not is_call:
            yield from group
            continue
        calls = [(part.name, part.arguments) for part in group if isinstance(part, PastCall)]
        try:
            yield Text(encode_calls(template, calls).strip())
        except ValueError:
            yield Text(encode_calls(_PLAIN, calls))


# ── Results ─────────────────────────────────────────────────────────────────────────


def _tell_results(
    messages: list[Message], calls: Mapping[str, tuple[int, str]], *, template: Template
) -> Message:
    """One message of the user: the results, then whatever else was said with them."""
    parts = [part for message in messages for part in message.parts]
    results = [part for part in parts if isinstance(part, CallResult)]
    results.sort(key=lambda result: calls.get(result.call_id, (len(calls), ""))[0])
    told: list[Part] = []
    for result in results:
        name = result.name or calls.get(result.call_id, (0, ""))[1]
        output = speak(result.result)
        told.append(Text(encode_result(template, name, output=output, id=result.call_id)))
        told += (piece for piece in result.result.content if isinstance(piece, Media))
    told += (part for part in parts if not isinstance(part, CallResult))
    return Message(Role.USER, tuple(_join_texts(told)))


# ── Joining ─────────────────────────────────────────────────────────────────────────


def _join_neighbours(messages: Iterable[Message], *, written_by_caller: set[int]) -> list[Message]:
    """Let no two of a role follow each other, unless the caller wrote them so.

    Chat templates demand that user and assistant take turns.
    """
    runs: list[list[Message]] = []
    for message in messages:
        run = runs[-1] if runs else []
        same_role = bool(run) and run[-1].role is message.role
        both_theirs = len(run) == 1 and {id(run[0]), id(message)} <= written_by_caller
        if same_role and not both_theirs:
            run.append(message)
        else:
            runs.append([message])
    return [_join_messages(run) for run in runs]


def _join_messages(run: list[Message]) -> Message:
    if len(run) == 1:
        return run[0]
    parts = (part for message in run for part in message.parts)
    return Message(run[0].role, tuple(_join_texts(parts)))


def _join_texts(parts: Iterable[Part]) -> list[Part]:
    """Texts that follow one another as one, each on lines of its own."""
    joined: list[Part] = []
    for are_texts, group in groupby(parts, lambda part: isinstance(part, Text)):
        neighbours = list(group)
        joined += [_join_lines(neighbours)] if are_texts else neighbours
    return joined


def _join_lines(parts: Iterable[Part]) -> Text:
    *before, last = (part.text for part in parts if isinstance(part, Text))
    lines = [line for line in map(str.rstrip, before) if line]
    return Text("\n".join([*lines, last]))


# Emulation: a request with tools becomes one without, and its answer is read as if it had.
#
# >     emulated = emulate(request, "hermes")
#     … send `emulated.request` …
#     reader = emulated.reader("openai-chat")     the same events as for native calls
#
# The caller's request is never changed. A request that was emulated already comes out as it is, and
# a system message that holds our section gets it replaced, not doubled.


Constraint: TypeAlias = Literal["json_schema", "grammar", "prefill"]
"""The way in which an upstream is asked to constrain decoding: OpenAI's `response_format`,
llama.cpp's `grammar`, or a prefilled answer."""
_UNMARKED = JsonCalls(marked=False)
NewAssembler: TypeAlias = Callable[[Tools | None], TurnAssembler]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """A request without tools, and what is needed to read its answer."""

    request: Request
    dialect: Dialect
    offer: Offer
    """The tools that were written into the prompt: those that the choice allows."""
    choice: Choice
    barred: Offer = field(default_factory=dict)
    """Tools of the conversation that may not be called any more: their calls are rejected."""
    history: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    """The conversation before the tools were written into it. A quotation from it is not a call."""
    section: str = ""
    """The instructions that were written into the system message."""
    beginning: str = ""
    """The prefilled beginning of the answer, which the upstream continues."""

    @property
    def known(self) -> Offer:
        """The tools whose calls are searched for in the answer."""
        return self.offer or self.barred

    @property
    def added_tokens(self) -> int:
        """About how many tokens the instructions are: an estimate."""
        return estimate_tokens(self.section)

    def reader(self, protocol: str, *, within: NewAssembler = Assembler) -> Reader:
        """A reader for the answer in the upstream's protocol.

        `within` makes the assembler that builds the calls, for those who set its options.
        """
        return Reader(
            protocol,
            self.known.values(),
            new_assembler=lambda tools: self.new_assembler(tools, within=within),
            max_tokens=limit_of(protocol, self.request),
        )

    def new_assembler(
        self, tools: Tools | None = None, *, within: NewAssembler = Assembler
    ) -> TurnAssembler:
        """An assembler for one choice of the answer; `Reader` takes it as `new_assembler`."""
        return EmulatedAssembler(
            within(self.known.values() if tools is None else tools),
            ChoiceGate(self.choice),
            engine=self._engine() if self.known else None,
            beginning=self.beginning,
            provenance=provenance_of(self.history, self.known),
        )

    def _engine(self) -> Engine:
        return Engine(with_unmarked(self.dialect), self.known, reading=CallPosition.AGREED)


def emulate(
    request: Request,
    dialect: str | Dialect,
    *,
    prompt: Prompt | None = None,
    constrain: Constraint | None = None,
    silent: bool = False,
) -> Emulated:
    """Offer a request's tools through a dialect.

    `prompt` replaces the dialect's own instructions. `constrain` names what the upstream can
    do to hold the model to them. With `silent`, a model that has called tools must answer in
    words now, with the choice `none`: decoding is constrained to a reply, and what is a call
    all the same is rejected instead of shown as text. Tools and forms of the final answer have
    to be written down here, so that those whose schemas are broken are `InadmissibleTools` and
    an `UnreadableRequest`.
    """
    declared = dialect_named(dialect) if isinstance(dialect, str) else dialect
    apply = _constraint(constrain, declared)
    template = template_of(declared)
    offer = _allowed(request)
    barred = read_offer(request.tools) if silent and not offer else {}
    constrained = bool(offer or (barred and apply in _NEEDS_CONSTRAINED))
    messages = rewrite_history(request.messages, template)
    section = write_silence(constrained=constrained) if barred else ""
    if offer:
        words = _with_output(prompt or default_prompt(declared), request.output)
        section = write_prompt(declared, offer, choice=request.choice, prompt=words)
    emulated = Emulated(
        request=replace(
            request,
            messages=_with_section(messages, section) if request.tools else messages,
            tools=(),
            native_tools=() if request.choice.mode is Mode.NONE else request.native_tools,
            choice=_native_choice(request.choice),
            output=None if constrained else request.output,
        ),
        dialect=declared,
        offer=offer,
        choice=request.choice,
        barred=barred,
        history=_with_section(request.messages, ""),
        section=section,
    )
    return _note(apply(emulated, request)) if emulated.known else emulated


def _note(emulated: Emulated) -> Emulated:
    """Record in the request what its prompt contains. A dialect that is not built in has no name by
    which a reader could find it."""
    dialect = emulated.dialect
    if DIALECTS.get(dialect.name) is not dialect:
        return emulated
    prompted = Prompted(
        dialect=dialect.name,
        # In one order, as in the prompt: the same tools make the same request.
        tools=tuple(spec for _, spec in sorted(emulated.known.items())),
        choice=emulated.choice,
        beginning=emulated.beginning,
        history=emulated.history,
    )
    return replace(emulated, request=replace(emulated.request, prompted=prompted))


def with_unmarked(dialect: Dialect) -> Dialect:
    """The dialect, and its calls without their marks: small models write the object alone, or
    in a fence. It counts where an answer begins, and with the name of an offered tool."""
    return _add_unmarked(DialectKey(dialect))


@lru_cache(maxsize=256)
def _add_unmarked(key: DialectKey) -> Dialect:
    """The same one each time: its vocabulary is kept."""
    return replace(key.dialect, bare=(*key.dialect.bare, _UNMARKED))


def _allowed(request: Request) -> Offer:
    """The tools that the answer may call."""
    choice = request.choice
    if choice.mode is Mode.NONE:
        return {}
    require_admissible(request.tools)
    offer = read_offer(request.tools)
    return {name: spec for name, spec in offer.items() if not choice.tools or name in choice.names}


def _native_choice(choice: Choice) -> Choice:
    """Return the rest of the choice, for tools that the upstream itself runs."""
    only_native = choice.specials and not choice.names
    return Choice(choice.mode, (), choice.parallel, choice.specials) if only_native else Choice()


def _with_output(prompt: Prompt, output: OutputSchema | None) -> Prompt:
    """An upstream that held the whole answer to a schema would leave no room for calls. So
    the form of the final answer is said in words."""
    form = _reply_form(output)
    if form is None:
        return prompt
    schema = json.dumps(form, sort_keys=True, ensure_ascii=False)
    wanted = f"The final answer must be JSON that fits this schema: {schema}"
    return replace(prompt, otherwise=f"{prompt.otherwise} {wanted}")


def _reply_form(output: OutputSchema | None) -> Node | None:
    """Return the schema of the final answer; None if it cannot be expressed in a prompt or a
    grammar."""
    if output is None:
        return None
    compiled = prepare(output.schema)
    if isinstance(compiled, Problem):
        message = f"the form of the final answer: {compiled.message} (at {compiled.path})"
        raise UnreadableRequest(message, param="")
    return compiled.root.node


def _with_section(messages: tuple[Message, ...], section: str) -> tuple[Message, ...]:
    """The instructions first in the system message, so that the upstream's cache holds them."""
    if not messages or messages[0].role is not Role.SYSTEM:
        return (Message(Role.SYSTEM, (Text(section),)), *messages) if section else messages
    first, *others = messages
    said, parts = "", first.parts
    if parts and isinstance(parts[0], Text):
        said, parts = parts[0].text, parts[1:]
    head = without_prompt(said)
    if not section and head == said:
        return messages  # there is nothing to put in or to take out, however empty it is
    text = "\n\n".join(filter(None, (section, head)))
    told = Message(first.role, ((Text(text),) if text else ()) + parts)
    if told.parts == first.parts:
        return messages
    return (told, *others) if told.parts else tuple(others)


# ── Constraints ─────────────────────────────────────────────────────────────────────


def _by_schema(emulated: Emulated, asked: Request) -> Emulated:
    # Not `strict`: that word also forbids schemas that a tool may well have.
    form = _reply_form(asked.output)
    schema = answer_schema(emulated.offer, emulated.choice, reply=form)
    output = OutputSchema(schema=schema, name="answer", strict=False)
    return replace(emulated, request=replace(emulated.request, output=output))


def _by_grammar(emulated: Emulated, asked: Request) -> Emulated:
    rest = asked.rest
    kept = rest.value if rest is not None and rest.protocol == _LLAMA_SPEAKS else {}
    form = _reply_form(asked.output) or (None if emulated.offer else WORDS)
    schema = answer_schema(emulated.offer, emulated.choice, reply=form)
    fields = {**kept, "grammar": write_grammar(schema)}
    is_asked = bool(asked.messages) and asked.messages[-1].role is Role.USER
    if is_asked and emulated.offer and asked.choice.mode is not Mode.REQUIRED:
        fields.setdefault("logit_bias", [[REPLY, _FAVOUR]])
    return replace(emulated, request=replace(emulated.request, rest=Native(_LLAMA_SPEAKS, fields)))


def _by_prefill(emulated: Emulated, _asked: Request) -> Emulated:
    """Begin a call where there must be one. An answer that is begun already stays so."""
    if emulated.choice.mode is not Mode.REQUIRED:
        return emulated
    beginning = opening(template_of(emulated.dialect), emulated.offer)
    begun = Message(Role.ASSISTANT, (Text(beginning),))
    messages = emulated.request.messages
    if messages[-1] == begun:
        return replace(emulated, beginning=beginning)
    if not beginning or messages[-1].role is Role.ASSISTANT:
        return emulated
    request = replace(emulated.request, messages=(*messages, begun))
    return replace(emulated, request=request, beginning=beginning)


def _unconstrained(emulated: Emulated, _asked: Request) -> Emulated:
    return emulated


_LLAMA_SPEAKS = "openai-chat"
# Of 25 questions that need no tool, a model of 1.5 billion parameters called one for 14, and with
# this for 9. The log odds of a reply lie below -1.6 for all of 19 questions that need a tool. Once
# it has called one it is left alone, because a favoured reply would come too early.
_FAVOUR = 1.5
_CONSTRAINTS: Mapping[Constraint | None, Callable[[Emulated, Request], Emulated]] = {
    "json_schema": _by_schema,
    "grammar": _by_grammar,
    "prefill": _by_prefill,
    None: _unconstrained,
}
_NEEDS_CONSTRAINED = (_by_schema, _by_grammar)


def _constraint(
    constrain: Constraint | None, dialect: Dialect
) -> Callable[[Emulated, Request], Emulated]:
    if constrain not in _CONSTRAINTS:
        known = ", ".join(repr(name) for name in _CONSTRAINTS)
        raise ValueError(f"decoding cannot be constrained by {constrain!r}; there are {known}")
    apply = _CONSTRAINTS[constrain]
    if apply in _NEEDS_CONSTRAINED and dialect != CONSTRAINED:
        raise UnusableDialect(
            f"{constrain!r} constrains answers in the dialect {CONSTRAINED.name!r}, "
            f"not in {dialect.name!r}"
        )
    return apply


# Tools that stand in a prompt, as a case says it: what `check` needs to read the answer again.


_DIALECT, _BEGINNING = "dialect", "beginning"
_FORM = "openai-chat"
"""Whose words a case has for the choice."""


def write_prompted(prompted: Prompted) -> dict[str, Any]:
    """Return the fields of a case other than its tools."""
    begun = {_BEGINNING: prompted.beginning} if prompted.beginning else {}
    return {_DIALECT: prompted.dialect, **encode_choice(prompted.choice, _FORM).fields, **begun}


def read_prompted(case: Mapping[str, Any], tools: Tools) -> Prompted | None:
    """The same of a case that was read; None if its tools were offered natively.

    A dialect that is not known is an `UnusableDialect`, and a choice an `InvalidChoice`.
    """
    if not case.get(_DIALECT):
        return None
    offer = read_offer(tools)
    return Prompted(
        dialect=dialect_named(str(case[_DIALECT])).name,
        tools=tuple(offer.values()),
        choice=decode_choice(_FORM, case, offered=offer),
        beginning=str(case.get(_BEGINNING) or ""),
    )


def assembler_of(prompted: Prompted, messages: object = ()) -> NewAssembler:
    """Return the reader of the answer; `Reader` takes it as `new_assembler`. `messages` are the
    conversation, as `write_messages` writes it."""
    dialect = with_unmarked(dialect_named(prompted.dialect))
    offer = read_offer(prompted.tools)

    def new_assembler(tools: Tools | None) -> TurnAssembler:
        return EmulatedAssembler(
            Assembler(tools),
            ChoiceGate(prompted.choice),
            engine=Engine(dialect, offer, reading=CallPosition.AGREED),
            beginning=prompted.beginning,
            provenance=provenance_of_raw(messages, offer),
        )

    return new_assembler
