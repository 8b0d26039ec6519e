"""What the router does where names, ids and calls have no end."""

import pytest

from recut import write
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.assembly.call_builder import BuildStep
from wholecall.assembly.routing import Router
from wholecall.events import CallDelta, Reason
from wholecall.messages import read_offer


def test_calls_beyond_the_limit_share_one_draft() -> None:
    lines = "0 a find {} | 1 b find {} | 2 c find {} | 0 d find {} | - e find {} | 0 - - x"
    router = Router(None, Limits(calls=2))
    for delta in write(lines):
        assert isinstance(delta, CallDelta)
        router.route(delta).add(delta.arguments)
    first, second, overflow = router.drafts
    assert (first.arguments.text, second.arguments.text) == ("{}", "{}")
    assert overflow.number == 2
    assert overflow.early_end == (Reason.LIMIT, "the answer holds more than 2 calls")
    assert router.at(0) is overflow
    assert router.at(1) is second
    assert router.at(None) is overflow


# what holds, the pieces of a name (8 characters are allowed), the tools, name, is it refused
NAMES: list[tuple[str, list[str], tuple[str, ...] | None, str, bool]] = [
    ("a name as long as the limit", ["longname"], None, "longname", False),
    ("a longer one is cut and refused", ["long_names_"], None, "long_name", True),
    ("however it is cut", list("long_names_"), None, "long_name", True),
    ("an offered name may be longer", ["long_", "names"], ("long_names",), "long_names", False),
    ("but not than the longest", ["long_", "names", "_x"], ("long_names",), "long_names_", True),
]


@pytest.mark.parametrize(
    ("pieces", "offered", "name", "refused"), [row[1:] for row in NAMES], ids=[r[0] for r in NAMES]
)
def test_a_name_has_an_end(
    pieces: list[str], offered: tuple[str, ...] | None, *, name: str, refused: bool
) -> None:
    offer = None if offered is None else read_offer({"name": each} for each in offered)
    router = Router(offer, Limits(name=8))
    for piece in pieces:
        router.route(CallDelta(0, name=piece))
    (draft,) = router.drafts
    assert (draft.name, draft.early_end is not None) == (name, refused)
    longest = max(8, *map(len, offered or ()), 0)
    detail = f"the name of the tool has more than {longest} characters"
    assert draft.early_end in (None, (Reason.LIMIT, detail))


def test_a_refused_name_that_goes_on_begins_no_call_but_another_id_does() -> None:
    router = Router(None, Limits(name=8))
    router.route(CallDelta(0, name="long_names", id="a")).step(BuildStep.REJECT)
    router.route(CallDelta(0, name="and_on"))
    assert len(router.drafts) == 1
    router.route(CallDelta(0, name="find", id="b"))
    assert [draft.name for draft in router.drafts] == ["long_name", "find"]


def test_what_an_oddity_quotes_is_cut() -> None:
    router = Router(None, DEFAULT)
    for letter in "abab":
        router.route(CallDelta("s" * 999, name=letter * 99, id=letter * 999, opens=letter == "b"))
        router.route(CallDelta("s" * 999, id=letter.upper() * 999))
    notes = [note for draft in router.drafts for note in draft.oddities.take()]
    assert {note.oddity.value for note in notes} >= {"id_changed", "id_reused", "slot_reused"}
    assert max(len(note.detail) for note in notes) < 200


def test_a_changed_id_in_every_piece_is_remembered_once() -> None:
    router = Router(None, DEFAULT)
    router.route(CallDelta(0, "{", name="find", id="a"))
    for _ in range(100):
        router.route(CallDelta(0, "x", id="b"))
    other = router.route(CallDelta(1, "{", name="find", id="b"))
    assert other.relations.repeat_of == [0]
