"""Indices, ids and names that do not say which call a piece belongs to."""

from __future__ import annotations

from wholecall.faults.script import (
    AUTO,
    CHAT,
    FINAL,
    MAIL,
    OTHER_MAIL,
    STREAMED,
    Begin,
    Grow,
    Scenario,
    Seal,
    Step,
    ToolRun,
    address,
    answer,
    call,
    open_call,
    runs,
    split,
    write,
)

_BOTH = runs(MAIL, OTHER_MAIL)


def _interleave(*streams: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(step for steps in zip(*streams, strict=True) for step in steps)


def _repeat_head(run: ToolRun, *, id: str) -> tuple[Step, ...]:
    """A call whose every piece has its id and name again."""
    grown = (Grow(id=id, name=run.tool, arguments=piece) for piece in split(write(run)))
    return (Begin(id=id, name=run.tool), *grown)


SCENARIOS = (
    Scenario(
        name="index-missing",
        sentence="Two calls without any index.",
        turns=(
            (answer(*address(call(MAIL), index=None), *address(call(OTHER_MAIL, 1), index=None)),),
            (FINAL,),
        ),
        expected=_BOTH,
    ),
    Scenario(
        name="index-all-zero",
        sentence="Two calls, both with the index 0.",
        turns=(
            (answer(*address(call(MAIL), index=0), *address(call(OTHER_MAIL, 1), index=0)),),
            (FINAL,),
        ),
        expected=_BOTH,
    ),
    Scenario(
        name="index-one-based",
        sentence="The index of the first call is 1.",
        turns=(
            (answer(*address(call(MAIL), index=1), *address(call(OTHER_MAIL, 1), index=2)),),
            (FINAL,),
        ),
        expected=_BOTH,
    ),
    Scenario(
        name="index-reused",
        sentence="A third call has the index of the first, which is over.",
        turns=(
            (
                answer(
                    *address(call(MAIL), index=0),
                    *address(call(OTHER_MAIL, 1), index=1),
                    *address(call(ToolRun("list_items", {}), 2), index=0),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL, OTHER_MAIL, ToolRun("list_items", {})),
    ),
    Scenario(
        name="interleaved",
        sentence="The pieces of two calls come in turns.",
        turns=((answer(*_interleave(call(MAIL), call(OTHER_MAIL, 1))),), (FINAL,)),
        expected=_BOTH,
    ),
    Scenario(
        name="id-missing",
        sentence="The call has no id.",
        turns=((answer(*address(call(MAIL), id=None)),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="id-shared",
        sentence="Two calls with the same id.",
        turns=(
            (
                answer(
                    *address(call(MAIL), id="call_x"), *address(call(OTHER_MAIL, 1), id="call_x")
                ),
            ),
            (FINAL,),
        ),
        expected=_BOTH,
        forms=CHAT,
    ),
    Scenario(
        name="id-and-name-repeated",
        sentence="Every piece has the id and the name again; joined, they would be nonsense.",
        turns=((answer(*_repeat_head(MAIL, id="call_r")),), (FINAL,)),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="name-split",
        sentence="The name comes in two pieces.",
        turns=(
            (
                answer(
                    Begin(name="send_"),
                    Grow(name="email"),
                    *(Grow(arguments=piece) for piece in split(write(MAIL))),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="name-late",
        sentence="The arguments come before the name.",
        turns=(
            (
                answer(
                    Begin(),
                    *(Grow(arguments=piece) for piece in split(write(MAIL))),
                    Grow(name="send_email"),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="call-sent-twice",
        sentence="The whole call comes a second time, under the same id; it runs once.",
        turns=(
            (
                answer(
                    *open_call(MAIL),
                    Begin(id=AUTO, name=MAIL.tool, arguments=write(MAIL)),
                    Seal(),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=CHAT & STREAMED,
    ),
)
