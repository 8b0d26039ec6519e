"""Which calls run side by side, and which wait."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.agent.executor import Schedule


@dataclass(frozen=True)
class Planned:
    """A call as the table writes it: `a` is plain, `B` a barrier, `x1` at most one at a time."""

    word: str
    number: int

    def add_to(self, schedule: Schedule) -> None:
        limit = self.word[1:]
        schedule.add(
            str(self.number),
            self.number,
            name=self.word,
            barrier=self.word.isupper(),
            concurrency=int(limit) if limit else None,
        )


def plan(words: str) -> list[Planned]:
    return [Planned(word, number) for number, word in enumerate(words.split())]


# what holds, the calls, how many at a time, the steps: calls that begin together
STEPS = [
    ("plain calls run side by side", "a b c", 9, ["0 1 2"]),
    ("no more than allowed", "a b c", 2, ["0 1", "2"]),
    ("a barrier runs alone", "a B c", 9, ["0", "1", "2"]),
    ("a barrier at the front", "B a c", 9, ["0", "1 2"]),
    ("a barrier at the end", "a c B", 9, ["0 1", "2"]),
    ("barriers run one by one", "B B", 9, ["0", "1"]),
    ("a tool's own limit holds back only its own", "x1 x1 a x1", 9, ["0 2", "1", "3"]),
    ("what waits for its tool takes nobody's room", "x1 x1 x1 a", 2, ["0 3", "1", "2"]),
]


@pytest.mark.parametrize(
    ("words", "concurrency", "steps"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS]
)
def test_calls_begin_in_steps(*, words: str, concurrency: int, steps: list[str]) -> None:
    schedule = Schedule(concurrency)
    for planned in plan(words):
        planned.add_to(schedule)
        schedule.make_ready(str(planned.number))
    seen = []
    while begun := schedule.begin():
        seen.append(" ".join(begun))
        assert schedule.begin() == [], "what runs does not begin again"
        for call_id in begun:
            schedule.finish(call_id)
    assert seen == steps


def test_a_call_that_is_not_ready_holds_its_place() -> None:
    schedule = Schedule(9)
    for planned in plan("a B c"):
        planned.add_to(schedule)
    schedule.make_ready("1")
    schedule.make_ready("2")
    assert schedule.begin() == []
    schedule.make_ready("0")
    assert schedule.begin() == ["0"]
    schedule.finish("0")
    assert schedule.begin() == ["1"]


def test_a_barrier_that_comes_late_waits_for_what_runs_behind_it() -> None:
    schedule = Schedule(9)
    barrier, behind, later = Planned("B", 0), Planned("a", 1), Planned("a", 2)
    behind.add_to(schedule)
    schedule.make_ready("1")
    assert schedule.begin() == ["1"]
    for planned in (barrier, later):
        planned.add_to(schedule)
        schedule.make_ready(str(planned.number))
    assert schedule.begin() == []
    schedule.finish("1")
    assert schedule.begin() == ["0"]
    schedule.finish("0")
    assert schedule.begin() == ["2"]


def test_what_stands_before_a_running_barrier_waits() -> None:
    schedule = Schedule(9)
    Planned("B", 1).add_to(schedule)
    schedule.make_ready("1")
    assert schedule.begin() == ["1"]
    Planned("a", 0).add_to(schedule)
    schedule.make_ready("0")
    assert schedule.begin() == []
    schedule.finish("1")
    assert schedule.begin() == ["0"]


@given(
    words=st.lists(st.sampled_from(["a", "b", "B", "x1", "y2"]), max_size=12),
    concurrency=st.integers(1, 4),
    draw=st.data(),
)
def test_every_call_runs_once_and_no_rule_is_broken(
    *, words: list[str], concurrency: int, draw: st.DataObject
) -> None:
    """In whatever order calls come in, get ready and end."""
    schedule = Schedule(concurrency)
    coming = draw.draw(st.permutations(plan(" ".join(words))))
    waiting: list[Planned] = []
    running: list[Planned] = []
    begun: list[Planned] = []
    known = {str(planned.number): planned for planned in coming}
    while coming or waiting or running:
        moves = [move for move in (coming, waiting, running) if move]
        moved = draw.draw(st.sampled_from(moves)) if moves else []
        planned = moved.pop(draw.draw(st.integers(0, len(moved) - 1)))
        if moved is coming:
            planned.add_to(schedule)
            waiting.append(planned)
        elif moved is waiting:
            schedule.make_ready(str(planned.number))
        else:
            schedule.finish(str(planned.number))
        now = [known[call_id] for call_id in schedule.begin()]
        running += now
        begun += now
        assert len(running) <= concurrency
        assert len(running) == 1 or not any(each.word.isupper() for each in running)
        for limited in ("x1", "y2"):
            assert [each.word for each in running].count(limited) <= int(limited[1])
    assert sorted(each.number for each in begun) == list(range(len(words)))


def test_ten_thousand_calls_are_no_trouble() -> None:
    """Each beginning looks at what can begin, not at all that waits; else this takes minutes."""
    schedule = Schedule(16)
    waiting = [Planned("a", number) for number in range(10_000)]
    for planned in waiting:
        planned.add_to(schedule)
        schedule.make_ready(str(planned.number))
    begun = list(schedule.begin())
    for call_id in begun:
        schedule.finish(call_id)
        begun += schedule.begin()
    assert begun == [str(planned.number) for planned in waiting]
