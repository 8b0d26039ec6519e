"""Emulation: a request with tools becomes one without, and its answer is read as if it had.

    emulated = emulate(request, "hermes")
    … send `emulated.request` …
    reader = emulated.reader("openai-chat")     the same events as for native calls

The caller's request is never changed. A request that was emulated already comes out as it
is, and a system message that holds our section gets it replaced, not doubled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from wholecall.core.assembler import Assembler
from wholecall.core.choice import Choice, Mode
from wholecall.core.conversation import (
    Message,
    Native,
    OutputSchema,
    Prompted,
    Request,
    Role,
)
from wholecall.core.prepare import prepare
from wholecall.core.schema import require_admissible
from wholecall.core.spec import Offer, read_offer
from wholecall.core.translate import Node
from wholecall.core.values import Problem, Text
from wholecall.dialects.constrained import CONSTRAINED, answer_schema
from wholecall.dialects.declaration import Dialect, template_of
from wholecall.dialects.emulated_answer import EmulatedAssembler
from wholecall.dialects.enforce import Gate
from wholecall.dialects.engine import Engine, Reading
from wholecall.dialects.gbnf import write_grammar
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.past import rewrite_history
from wholecall.dialects.prefill import opening
from wholecall.dialects.prompt import (
    Prompt,
    default_prompt,
    without_prompt,
    write_prompt,
)
from wholecall.dialects.provenance import provenance_of
from wholecall.dialects.registry import DIALECTS, dialect_named
from wholecall.dialects.tokens import estimate_tokens
from wholecall.errors import UnreadableRequest, UnusableDialect
from wholecall.protocols.reader import Reader, Tools, TurnAssembler
from wholecall.protocols.requests import limit_of

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
    """The conversation before the tools were written into it: what is quoted from it is no call."""
    section: str = ""
    """The instructions that were written into the system message."""
    beginning: str = ""
    """The prefilled beginning of the answer, which the upstream continues."""

    @property
    def known(self) -> Offer:
        """The tools whose calls are looked for in the answer."""
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
            Gate(self.choice),
            engine=self._engine() if self.known else None,
            beginning=self.beginning,
            provenance=provenance_of(self.history, self.known),
        )

    def _engine(self) -> Engine:
        return Engine(with_unmarked(self.dialect), self.known, reading=Reading.AGREED)


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
    section = ""
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
    )
    return replace(emulated, request=replace(emulated.request, prompted=prompted))


def with_unmarked(dialect: Dialect) -> Dialect:
    """The dialect, and its calls without their marks: small models write the object alone, or
    in a fence. It counts where an answer begins, and with the name of an offered tool."""
    return replace(dialect, bare=(*dialect.bare, _UNMARKED))


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
    output = OutputSchema(schema=_answer_schema(emulated, asked), name="answer", strict=False)
    return replace(emulated, request=replace(emulated.request, output=output))


def _by_grammar(emulated: Emulated, asked: Request) -> Emulated:
    rest = asked.rest
    kept = rest.value if rest is not None and rest.protocol == _LLAMA_SPEAKS else {}
    fields = {**kept, "grammar": write_grammar(_answer_schema(emulated, asked))}
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


def _answer_schema(emulated: Emulated, asked: Request) -> dict[str, object]:
    return answer_schema(emulated.offer, emulated.choice, reply=_reply_form(asked.output))
