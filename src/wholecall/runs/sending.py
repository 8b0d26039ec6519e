"""Send a request and read its answer: with native tools, or in a dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from wholecall.core.assembler import Assembler
from wholecall.core.choice import Mode
from wholecall.core.conversation import Message, PastCall, Request
from wholecall.core.ids import CallIds
from wholecall.core.spec import read_offer
from wholecall.dialects.declaration import Dialect
from wholecall.dialects.emulate import Constraint, emulate
from wholecall.dialects.enforce import EnforcingAssembler
from wholecall.dialects.models import Means, way_for
from wholecall.dialects.provenance import provenance_of
from wholecall.dialects.rescuing import Rescue, RescuingAssembler
from wholecall.protocols.reader import Reader, Tools, TurnAssembler
from wholecall.protocols.requests import limit_of
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Answer
from wholecall.upstreams.traits import traits_of


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it goes to the upstream, and what reads the answer to it."""

    request: Request
    make_reader: Callable[[Answer], Reader]


class Sender(Protocol):
    """Offers the tools of a request in one way or another."""

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Return what is sent, and what reads the answer.

        With `silent` the answer must be words: no tool may be called any more, and a call that
        is written as text is rejected instead of shown.
        """


@dataclass(frozen=True, slots=True)
class RescueRule:
    """Which calls are started although they were written as text."""

    toolbox: Toolbox
    rescue: Rescue | None = None
    """None: the default, `read_only` for tools that run here and `all` for the client's."""

    def may_start(self, name: str) -> bool:
        """Whether a call of this tool may be."""
        tool = self.toolbox.find(name)
        if self.rescue is None and not self.toolbox.runs(name):
            return True  # the client decides what to run
        return self.rescue is Rescue.ALL or (tool is not None and tool.read_only)


class NativeSender:
    """The upstream takes tools. A call that it left in the text is rescued, by a rule."""

    def __init__(self, ids: CallIds, rule: RescueRule) -> None:
        self._ids = ids
        self._rule = rule

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request as it is."""
        # Where no tool may be called, what looks like a call in the text is text. A model that has
        # called tools and may not any more means it as a call, though.
        rescues = silent or (
            request.choice.mode is not Mode.NONE and self._rule.rescue is not Rescue.OFF
        )

        def make_reader(answer: Answer) -> Reader:
            def new_assembler(tools: Tools | None) -> TurnAssembler:
                hides = answer.hides_truncation
                make = partial(
                    RescuingAssembler,
                    provenance=provenance_of(request.messages, read_offer(request.tools)),
                    may_start=self._rule.may_start,
                )
                make_any = make if rescues else Assembler
                assembler = make_any(tools, hides_truncation=hides, ids=self._ids)
                return EnforcingAssembler(request.choice, assembler)

            limit = limit_of(answer.protocol, request)
            return Reader(
                answer.protocol, request.tools, new_assembler=new_assembler, max_tokens=limit
            )

        return Sent(request, make_reader)


class EmulatedSender:
    """The upstream takes no tools: they are written into the prompt, in a dialect."""

    def __init__(
        self, ids: CallIds, dialect: str | Dialect, *, constrain: Constraint | None = None
    ) -> None:
        self._ids = ids
        self._dialect = dialect
        self._constrain = constrain

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request without tools."""
        emulated = emulate(request, self._dialect, constrain=self._constrain, silent=silent)

        def make_reader(answer: Answer) -> Reader:
            # A `{}` in the text was written by the model: no upstream puts it there for nothing.
            return emulated.reader(answer.protocol, within=partial(Assembler, ids=self._ids))

        return Sent(emulated.request, make_reader)


class UnforcedSender:
    """The upstream takes tools, but no demand to call one: that is put to it by constraining."""

    def __init__(self, native: NativeSender, constrained: EmulatedSender) -> None:
        self._native = native
        self._constrained = constrained

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request in one way or the other."""
        forced = request.choice.mode is Mode.REQUIRED
        return (self._constrained if forced else self._native)(request, silent=silent)


def sender_for(
    model: str,
    messages: tuple[Message, ...],
    *,
    rule: RescueRule | None = None,
    emulation: str | Dialect | None = None,
) -> Sender:
    """How this model is offered tools.

    `emulation` is a dialect, `native`, `constrained` or `auto`, which goes by the model's
    name; None is what suits its upstream. Without a `rule` every tool is the client's.
    """
    ids = ids_of(messages)
    if isinstance(emulation, Dialect):
        return EmulatedSender(ids, emulation)
    traits = traits_of(model)
    way = way_for(model, override=emulation or traits.emulation)
    constrained = EmulatedSender(ids, "constrained", constrain=traits.constraint)
    if way.means is Means.NATIVE:
        native = NativeSender(ids, rule or RescueRule(Toolbox()))
        return native if traits.forces_natively else UnforcedSender(native, constrained)
    if way.means is Means.CONSTRAINED:
        return constrained
    return EmulatedSender(ids, way.dialect)


def ids_of(messages: tuple[Message, ...]) -> CallIds:
    """The ids that a conversation has used so far."""
    parts = (part for message in messages for part in message.parts)
    return CallIds(part.id for part in parts if isinstance(part, PastCall))
