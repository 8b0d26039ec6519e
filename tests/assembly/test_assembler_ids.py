"""Ids of calls: each is given once in a conversation."""

import pytest

from wholecall.assembly.assembler import CallIds, make_id

# (what holds, the ids that are taken, what is claimed in turn, what is given)
CLAIMS: list[tuple[str, list[str], list[str | None], list[str]]] = [
    ("a free id is given as it is", [], ["a", "b"], ["a", "b"]),
    ("a missing id is made up", [], [None, None], ["new_0", "new_1"]),
    ("an id of an earlier turn is replaced", ["a"], ["a"], ["new_0"]),
    ("an id of this turn is replaced", [], ["a", "a"], ["a", "new_0"]),
    ("a made-up id that is taken is made up again", ["new_0"], [None], ["new_1"]),
    ("an id that was made up is taken", [], [None, "new_0"], ["new_0", "new_1"]),
]


@pytest.mark.parametrize(
    ("taken", "claimed", "given"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS]
)
def test_an_id_is_given_once(
    taken: list[str], claimed: list[str | None], *, given: list[str]
) -> None:
    made_up = iter(f"new_{number}" for number in range(9))
    ids = CallIds(taken, make=lambda: next(made_up))
    assert [ids.claim(wanted) for wanted in claimed] == given


def test_what_was_taken_is_not_changed() -> None:
    taken = ["a"]
    CallIds(taken).claim("b")
    assert taken == ["a"]


def test_a_made_up_id_is_new_each_time() -> None:
    ids = CallIds()
    given = {ids.claim(None) for _ in range(100)} | {make_id()}
    assert len(given) == 101
    assert all(id.startswith("call_") for id in given)
