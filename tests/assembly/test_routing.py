"""Which delta belongs to which call."""

import pytest

from recut import every_recut, write
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.assembly.call_builder import Draft
from wholecall.assembly.routing import Router, read_id
from wholecall.events import CallDelta, Delta
from wholecall.messages import read_offer

OFFER = read_offer({"name": name} for name in ("find", "list", "edit", "edit_file", "run"))

# what holds, the deltas (slot id name arguments), the drafts (id name text, what follows), oddities
ROWS = [
    # By slot.
    (
        "pieces go by their slot",
        '0 a find {"x": | 1 b list {"y": | 0 - - 1} | 1 - - 2}',
        'a find {"x":1} | b list {"y":2}',
        "",
    ),
    ("slots may be names", 'item_1 a find {"x": | item_1 - - 1}', 'a find {"x":1}', ""),
    ("slots may begin at 1", "1 a find {} | 2 b list {}", "a find {} | b list {}", ""),
    ("a slot may be skipped", "0 a find {} | 5 b list {}", "a find {} | b list {}", ""),
    (
        "a tail under a slot that no head had",
        '0 a find {"x": | 1 - - 1}',
        'a find {"x":1}',
        "slot_reused",
    ),
    (
        "but not after a closed call",
        '0 a find {"x":1} | 1 - - {"y":2}',
        'a find {"x":1} | - - {"y":2}',
        "",
    ),
    # Without slot.
    (
        "without a slot, the call being built",
        '- a find {"x": | - - - 1}',
        'a find {"x":1}',
        "slot_missing",
    ),
    (
        "without a slot, ids are addresses",
        '- a find {"x": | - b list {"y": | - a - 1} | - b - 2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_missing",
    ),
    ("arguments before the name", '- a - {"x": | - a find 1}', 'a find {"x":1}', "slot_missing"),
    ("without a slot, a late id is its own", "- - find | - a - {}", "a find {}", "slot_missing"),
    (
        "without slot and id, a name begins a call",
        '- - find {"x":1} | - - list {"y":2}',
        '- find {"x":1} | - list {"y":2}',
        "slot_missing",
    ),
    (
        "a slot that comes late",
        '- a find {"x": | 0 a - 1 | 0 - - }',
        'a find {"x":1}',
        "slot_missing",
    ),
    (
        "a tail without slot belongs to the call that the last piece belonged to",
        '0 a find {"x": | 1 b list {"y": | 0 - - 1 | - - - }',
        'a find {"x":1} | b list {"y":',
        "slot_missing",
    ),
    (
        "unless that was over",
        '0 a find {"x":1} | 1 b list {"y": | 0 - -  | - - - 2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_missing",
    ),
    # A used slot.
    (
        "a new id on a used slot is a new call",
        '0 a find {"x":1} | 0 b find {"x":1}',
        'a find {"x":1} | b find {"x":1}',
        "slot_reused",
    ),
    (
        "even if the first is open",
        '0 a find {"x": | 0 b find {"x":2}',
        'a find {"x": | b find {"x":2}',
        "slot_reused",
    ),
    (
        "tails follow the last",
        '0 a find {"x": | 0 - - 1} | 0 b list {"y": | 0 - - 2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_reused",
    ),
    (
        "unless they have an id",
        '0 a find {"x": | 0 b list {"y": | 0 a - 1} | 0 b - 2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_reused",
    ),
    (
        "all zero, no ids: another name",
        '0 - find {"x":1} | 0 - list {"y":2}',
        '- find {"x":1} | - list {"y":2}',
        "slot_reused",
    ),
    (
        "all zero, no ids: the same name again",
        '0 - find {"x":1} | 0 - find {"x":2}',
        '- find {"x":1} | - find {"x":2}',
        "slot_reused",
    ),
    ("all zero, no arguments", "0 - find | 0 - list {}", "- find - | - list {}", "slot_reused"),
    (
        "a slot used again after others",
        "0 a find {} | 1 b list {} | 0 c run {}",
        "a find {} | b list {} | c run {}",
        "slot_reused",
    ),
    (
        "a head in slot 0, its tail in 1",
        '0 a find {"x":1} | 0 b list {"y": | 1 b - 2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_reused",
    ),
    # Ids.
    ("an id in each piece", '0 a find {"x": | 0 a - 1}', 'a find {"x":1}', ""),
    ("an id that comes late", '0 - find {"x": | 0 a - 1}', 'a find {"x":1}', ""),
    (
        "an id that changes without a name",
        '0 a find {"x": | 0 b - 1 | 0 b - }',
        'a find {"x":1}',
        "id_changed",
    ),
    (
        "an id that is a word for nothing",
        '0 a find {"x": | 0 null - 1 | 0 None - }',
        'a find {"x":1}',
        "",
    ),
    (
        "an id for two slots",
        '0 a find {"x":1} | 1 a list {"y":2}',
        'a find {"x":1} | a list {"y":2}',
        "id_reused",
    ),
    (
        "one slot and one id for two names",
        '0 a find {"x":1} | 0 a list {"y":2}',
        'a find {"x":1} | a list {"y":2}',
        "id_reused slot_reused",
    ),
    (
        "a known id finds its call in a strange slot",
        '0 a find {"x": | 7 a - 1 | 7 - - }',
        'a find {"x":1}',
        "",
    ),
    (
        "an id for two slots, in each piece",
        '0 a find {"x": | 1 a list {"y": | 0 a - 1} | 1 a - 2}',
        'a find {"x":1} | a list {"y":2}',
        "id_reused",
    ),
    (
        "an id for two slots, and tails without slot",
        '0 a find {"x":1} | 1 a list {"y": | - a - 2}',
        'a find {"x":1} | a list {"y":2}',
        "id_reused slot_missing",
    ),
    # Names.
    ("a name in each piece", '0 a find {"x": | 0 - find 1}', 'a find {"x":1}', "name_repeated"),
    ("a name that comes late", '0 a - {"x": | 0 - find 1}', 'a find {"x":1}', ""),
    ("a name after all arguments", '0 a - {"x":1} | 0 - find', 'a find {"x":1}', ""),
    ("a name and an id after them", '0 - - {"x":1} | 0 a find', 'a find {"x":1}', ""),
    (
        "a name with another id is another call's",
        '0 a - {"x":1} | 0 b find',
        'a - {"x":1} | b find -',
        "slot_reused",
    ),
    ("a split name", "0 a fi | 0 - nd | 0 - - {}", "a find {}", "name_split"),
    ("a name that grows as a whole", "0 a fi | 0 - find | 0 - - {}", "a find {}", "name_split"),
    (
        "even from one offered name to another",
        "0 a edit | 0 - edit_file | 0 - - {}",
        "a edit_file {}",
        "name_split",
    ),
    (
        "but not when the arguments have begun",
        "0 a edit { | 0 - edit_file {}",
        "a edit { | - edit_file {}",
        "slot_reused",
    ),
    (
        "another name while the first is open",
        '0 a find {"x": | 0 - list {}',
        'a find {"x": | - list {}',
        "slot_reused",
    ),
    ("an unknown name is kept", "0 a hello {}", "a hello {}", ""),
    # After a closed object.
    (
        "the object again belongs to it",
        '0 a find {"x":1} | 0 - - {"x":1}',
        'a find {"x":1} again',
        "",
    ),
    (
        "so does another object, if nothing announced it",
        '0 a find {"x":1} | 0 - - {"y":2}',
        'a find {"x":1} differs',
        "",
    ),
    (
        "its id again announces nothing",
        '0 a find {"x":1} | 0 a - {"y":2}',
        'a find {"x":1} differs',
        "",
    ),
    ("blanks announce nothing", '0 a find {"x":1} | 0 - -  ', 'a find {"x":1}', ""),
    (
        "a name without arguments announces nothing yet",
        '0 a find {"x":1} | 0 - find | 0 - find  ',
        'a find {"x":1}',
        "",
    ),
    (
        "arguments after it do",
        '0 a find {"x":1} | 0 - find | 0 - - {"y":2}',
        'a find {"x":1} | - find {"y":2}',
        "slot_reused",
    ),
    (
        "an id announces, too",
        '0 a find {"x":1} | 0 b - | 0 - - {"y":2}',
        'a find {"x":1} | b - {"y":2}',
        "slot_reused",
    ),
    (
        "a name that follows the id",
        '0 a find {"x":1} | 0 b - | 0 - list {"y":2}',
        'a find {"x":1} | b list {"y":2}',
        "slot_reused",
    ),
    (
        "`{}` ends nothing",
        '0 a find {} | 0 - find {"x":1}',
        'a find {"x":1}',
        "arguments_placeholder name_repeated",
    ),
]


def drafts_of(router: Router) -> str:
    return " | ".join(map(describe, router.drafts))


def describe(draft: Draft) -> str:
    tail = draft.arguments.tail()
    then = " again" * tail.repeats + " differs" * tail.differs
    return f"{draft.provider_id or '-'} {draft.name or '-'} {draft.arguments.text or '-'}{then}"


def route(deltas: list[Delta], limits: Limits = DEFAULT) -> Router:
    router = Router(OFFER, limits)
    for delta in deltas:
        assert isinstance(delta, CallDelta)
        router.route(delta).add(delta.arguments)
    return router


def oddities_of(router: Router) -> set[str]:
    return {note.oddity.value for draft in router.drafts for note in draft.oddities.take()}


@pytest.mark.parametrize(
    ("lines", "drafts", "odd"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_every_delta_finds_its_call(lines: str, drafts: str, *, odd: str) -> None:
    for deltas in every_recut(write(lines)):
        router = route(deltas)
        assert drafts_of(router) == drafts
        assert oddities_of(router) == set(odd.split())


def test_a_protocol_that_says_where_a_call_begins_is_believed() -> None:
    router = Router(OFFER, DEFAULT)
    first = router.route(CallDelta(0, name="find", id="a", opens=True))
    second = router.route(CallDelta(0, name="find", id="a", opens=True))
    third = router.route(CallDelta(name="find", opens=True))
    assert router.drafts == [first, second, third]
    assert second.relations.repeat_of == [first.number]
    assert third.relations.repeat_of == []
    assert all(draft.boundary.seals for draft in router.drafts)
    assert oddities_of(router) == {"id_reused", "slot_reused"}  # a slot is not missed


def test_objects_that_grow_may_have_their_whole_address_each_time() -> None:
    pieces = [CallDelta(0, {"x": text}, "find", "a") for text in ("y", "yz")]
    [draft] = route([*pieces]).drafts
    assert draft.arguments.object() == {"x": "yz"}


def test_a_place_is_found_by_slot_or_is_the_call_being_built() -> None:
    router = Router(OFFER, DEFAULT)
    assert router.at(None) is None
    first, second = (router.route(CallDelta(slot, name="find")) for slot in (0, "one"))
    assert router.at(0) is first
    assert router.at("one") is second
    assert router.at(2) is None
    assert router.at(None) is second


# what holds, the deltas, the numbers of the calls that the last one may repeat
REPEATS: list[tuple[str, str, list[int]]] = [
    ("the same id again", '0 a find {"x":1} | 1 b list {} | 2 a find {"x":1}', [0]),
    ("and once more", "0 a find {} | 1 b list {} | 2 a list {} | 3 a list {}", [0, 2]),
    ("announced by its name after a closed call", '0 a find {"x":1} | 0 - find {"x":1}', [0]),
    ("a new id is a new call", '0 a find {"x":1} | 0 b find {"x":1}', []),
    ("so is a new slot", '0 - find {"x":1} | 1 - find {"x":1}', []),
]


@pytest.mark.parametrize(
    ("lines", "repeated"), [row[1:] for row in REPEATS], ids=[row[0] for row in REPEATS]
)
def test_a_call_that_may_be_a_repeat_knows_of_what(lines: str, repeated: list[int]) -> None:
    for deltas in every_recut(write(lines)):
        assert route(deltas).drafts[-1].relations.repeat_of == repeated


# what holds, the deltas, the number of the draft whose place the last one took
RIVALS = [
    ("the same name in a used place", '0 a find {"x": | 0 b find {}', 0),
    ("another name is another call", '0 a find {"x": | 0 b list {}', None),
    ("another place, too", '0 a find {"x": | 1 b find {}', None),
]


@pytest.mark.parametrize(
    ("lines", "rival"), [row[1:] for row in RIVALS], ids=[row[0] for row in RIVALS]
)
def test_a_call_knows_whose_place_it_took(lines: str, rival: int | None) -> None:
    for deltas in every_recut(write(lines)):
        last = route(deltas).drafts[-1]
        assert (last.relations.rival and last.relations.rival.number) == rival
        assert not last.boundary.seals


@pytest.mark.parametrize("word", [None, "", "null", "NULL", "None", "undefined", "nil"])
def test_a_word_for_nothing_is_no_id(word: str | None) -> None:
    assert read_id(word) is None


@pytest.mark.parametrize("id", ["a", "0", "nullify", "call_None"])
def test_any_other_word_is_an_id(id: str) -> None:
    assert read_id(id) == id
