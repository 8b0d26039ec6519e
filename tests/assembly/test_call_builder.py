"""A call being built: what each piece of its arguments makes of it."""

from typing import Any

import pytest

from assembly.drafts import SMALL, draft_of, odd
from recut import every_cutting
from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.parse import parse
from wholecall.assembly.call_builder import BuildStep, Draft, State, TextBuffer, TextForm
from wholecall.assembly.json_scanner import MOST_REPEATS, Tail
from wholecall.events import Evidence, Inconsistent, Oddity, Reason

BLANK, OPEN, EMPTY = TextForm.BLANK, TextForm.OPEN, TextForm.EMPTY
CLOSED, FOREIGN = TextForm.CLOSED, TextForm.FOREIGN

# ── Text ────────────────────────────────────────────────────────────────────────────

# what holds, the text, its form, the text that is kept, whether that is nothing
TEXTS = [
    ("blanks are nothing", " \n", BLANK, " \n", True),
    ("a brace is not nothing", "{", OPEN, "{", False),
    ("an open object is being built", '{"a": "}', OPEN, '{"a": "}', False),
    ("the last brace closes it", '{"a": {}}', CLOSED, '{"a": {}}', False),
    ("what follows is no part of it", '{"a": 1}} {"b', CLOSED, '{"a": 1}', False),
    ("`{}` proves nothing", "{}", EMPTY, "{}", True),
    ("`{ }` neither", " { } ", EMPTY, " { }", True),
    ("the object after `{}` is meant", '{}{"a": 1}', CLOSED, '{"a": 1}', False),
    ("blanks may stand between", '{} \n {"a": 1}', CLOSED, ' {"a": 1}', False),
    ("`{}` may come a few times", "{}{}{} {}", EMPTY, " {}", True),
    ("but not for ever", "{}" * 1000, FOREIGN, "{}" * 992, False),
    ("after `{}` an open object is meant", '{}{"a', OPEN, '{"a', False),
    ("prose after `{}` is not `{}`", "{}, thanks", FOREIGN, "{}, thanks", False),
    ("braces that hold no JSON prove nothing", "{'a': 1}", FOREIGN, "{'a': 1}", False),
    ("nor does what follows them", "{'a': 1} {}", FOREIGN, "{'a': 1} {}", False),
    ("a list is kept, and is not nothing", '[{"a": 1}]', FOREIGN, '[{"a": 1}]', False),
    ("a text that looks like an object is none", '"{}"', FOREIGN, '"{}"', False),
    ("brackets that do not fit are kept", '{"a": [}]}', FOREIGN, '{"a": [}]}', False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "form", "kept", "empty"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS]
)
def test_text_is_kept_up_to_the_brace_that_proves_it(
    text: str, form: TextForm, *, kept: str, empty: bool
) -> None:
    for pieces in every_cutting(text):
        draft = draft_of(*pieces)
        assert (draft.arguments.form, draft.arguments.text.strip(), draft.arguments.is_empty) == (
            form,
            kept.strip(),
            empty,
        )
        assert draft.arguments.raw == draft.arguments.text
        assert (draft.arguments.parsed is not None) is (form is CLOSED)
        assert draft.evidence is (Evidence.CLOSED if form is CLOSED else Evidence.NONE)
        assert draft.has_ended is (form is CLOSED)
        assert draft.has_begun
        assert draft.early_end is None


@pytest.mark.parametrize(
    ("text", "is_open"),
    [("", False), ("{", True), ('{"a": 1', True), ('{"a": 1}', False), ("{}", False), ("[", False)],
)
def test_a_text_is_open_inside_its_object(text: str, is_open: bool) -> None:
    draft = draft_of(text)
    assert draft.arguments.is_open is is_open
    assert not draft.is_contested
    other = Draft(8, DEFAULT)
    other.relations.rival = draft
    assert other.is_contested is is_open


# what holds, the text, why it ends, the text that is kept
ENDS = [
    ("as many characters as the limit are open", '{"a": "90123456789', None),
    ("one more is too many", '{"a": "9012345678901"', Reason.LIMIT),
    ("many more are too many", '{"a": "' + "x" * 1000, Reason.LIMIT),
    ("nested too deep", '{"a":{"b":{"c":{', Reason.LIMIT),
    ("endless white space", '{"a":     1}', Reason.DEGENERATE),
    ("endless white space and nothing else", "     ", Reason.DEGENERATE),
]


@pytest.mark.parametrize(
    ("text", "reason"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_a_limit_ends_a_draft_early(text: str, reason: Reason | None) -> None:
    for pieces in every_cutting(text):
        draft = draft_of(*pieces, limits=SMALL)
        assert (draft.early_end and draft.early_end[0]) is reason
        assert draft.is_growing
        assert len(draft.arguments.text) <= SMALL.characters


def test_what_fits_is_read_before_the_limit_ends_it() -> None:
    for pieces in every_cutting('{"a": 1}' + " " * 20):
        draft = draft_of(*pieces, limits=SMALL)
        assert draft.is_closed
        assert draft.early_end is None
        assert draft.arguments.tail() == Tail(differs=True)  # more than was kept may be anything


def test_a_draft_that_stands_for_the_calls_beyond_the_limit() -> None:
    draft = Draft(64, DEFAULT)
    draft.refuse(Reason.LIMIT, "the answer holds more than 64 calls")
    draft.append('{"a": 1}')
    assert draft.early_end == (Reason.LIMIT, "the answer holds more than 64 calls")


# ── What follows the object ─────────────────────────────────────────────────────────


def test_what_follows_a_rejected_draft_is_dropped() -> None:
    draft = draft_of('{"a": 1}')
    draft.step(BuildStep.REJECT)
    draft.append('{"a": 2}')
    assert draft.arguments.tail() == Tail()


# ── Sealing ─────────────────────────────────────────────────────────────────────────

A = '{"a": 1}'
BOTH = Evidence.CLOSED | Evidence.SEALED

# what holds, what came, the whole text at the end, the text that is kept, evidence
SEALS = [
    ("an open text is sealed, not closed", ['{"a'], None, '{"a', Evidence.SEALED),
    ("a closed one is both", [A], None, A, BOTH),
    ("an object has no brace that would close it", [{"a": 1}], None, "", Evidence.SEALED),
    ("the same text once more", [A], A, A, BOTH),
    ("the same with blanks around it", [A], f" {A}\n", A, BOTH),
    ("a blank text says nothing", ['{"a'], " ", '{"a', Evidence.SEALED),
    ("the text that never came", [], A, A, BOTH),
    ("the text that came only in part", ['{"a'], A, A, BOTH),
    ("an open text, once more", ['{"a'], '{"a', '{"a', Evidence.SEALED),
    ("the real text after `{}`", ["{}"], A, A, BOTH),
    ("the real text after blanks", ["  "], A, A, BOTH),
]


@pytest.mark.parametrize("row", SEALS, ids=[row[0] for row in SEALS])
def test_the_end_of_a_call_may_bring_its_whole_text(
    row: tuple[str, list[Any], str | None, str, Evidence],
) -> None:
    _, pieces, whole, text, evidence = row
    draft = draft_of(*pieces)
    for _ in range(2):  # some protocols say it twice
        draft.seal(whole)
        assert draft.state is State.SEALED
        assert draft.arguments.text.strip() == text
        assert draft.evidence is evidence
        assert draft.has_ended
        assert draft.arguments.tail() == Tail()


@pytest.mark.parametrize("text", ['{"b', '{"b": 1}'])
def test_another_text_at_the_end_of_a_call_differs(text: str) -> None:
    draft = draft_of(text)
    draft.seal(A)
    assert draft.arguments.text == text
    assert draft.arguments.tail().differs


def test_a_text_that_is_said_otherwise_again_and_again_is_not_looked_at_for_ever() -> None:
    draft = draft_of('{"a": 1', "}")
    for number in range(MOST_REPEATS + 1):
        assert not draft.arguments.tail().differs
        draft.seal(f"stray {number}")
    joins = 0

    class Counted(TextBuffer):
        def join(self) -> str:
            nonlocal joins
            joins += 1
            return super().join()

    draft.arguments._text = Counted()
    draft.seal("stray again")
    assert draft.arguments.tail() == Tail(differs=True)
    assert joins == 0


def test_what_is_said_of_a_rejected_call_is_not_kept() -> None:
    draft = draft_of(A)
    draft.step(BuildStep.REJECT)
    draft.seal('{"b": 2}')
    assert draft.arguments.tail() == Tail()


# ── Showing ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", " ", "{", " { ", "{}", "{ }", "{}{"])
def test_text_that_may_be_a_placeholder_does_not_flow(text: str) -> None:
    for pieces in every_cutting(text):
        assert not draft_of(*pieces).arguments.may_flow()


@pytest.mark.parametrize("text", ['{"', A, "{}{'", "[", "{} x", "{'a': 1}"])
def test_text_that_is_none_flows(text: str) -> None:
    for pieces in every_cutting(text):
        assert draft_of(*pieces).arguments.may_flow()


def test_each_text_is_shown_once() -> None:
    draft = draft_of('{"a', '": ')
    assert draft.arguments.fresh() == '{"a": '
    assert draft.arguments.fresh() == ""
    draft.append("1} {")
    assert draft.arguments.fresh() == "1}"


# what holds, the pieces, the last of them if each begins with the one before
SNAPSHOTS = [
    ("each piece is all there is", ['{"a', '{"a": "x', '{"a": "x"}'], '{"a": "x"}'),
    ("one piece is no repetition", [A], None),
    ("pieces that go on are none", ['{"a', '": 1}'], None),
    ("one that goes on is enough", ['{"a', '{"a": ', '"x', '{"a": "x"}'], None),
    ("after `{}` it begins anew", ["{}", '{"a', '{"a": 1}'], '{"a": 1}'),
]


@pytest.mark.parametrize(
    ("pieces", "snapshot"), [row[1:] for row in SNAPSHOTS], ids=[row[0] for row in SNAPSHOTS]
)
def test_pieces_that_repeat_all_that_came_are_seen(pieces: list[str], snapshot: str | None) -> None:
    draft = draft_of(*pieces)
    assert draft.snapshot() == snapshot
    draft.boundary.seals = True  # a call with an end of its own is judged behind that
    assert draft.snapshot() is None
    draft.seal()
    assert draft.snapshot() == snapshot
    draft.boundary.written = True  # a text is cut anywhere
    assert draft.snapshot() is None


def test_broken_markup_ends_a_draft_unless_a_limit_did() -> None:
    draft = draft_of('{"a": 1')
    draft.refuse(Reason.BAD_MARKUP, "a tag does not fit")
    assert draft.early_end == (Reason.BAD_MARKUP, "a tag does not fit")
    draft = draft_of({"a": "x" * 9}, {"a": "y"}, {"a": "z"}, limits=SMALL)
    draft.refuse(Reason.BAD_MARKUP, "a tag does not fit")
    assert draft.early_end is not None
    assert draft.early_end[0] is Reason.LIMIT


def test_an_oddity_is_told_once() -> None:
    draft = Draft(7, DEFAULT)
    draft.oddities.note(Oddity.ID_CHANGED, "first")
    draft.oddities.note(Oddity.ID_CHANGED, "second")
    assert draft.oddities.take() == [Inconsistent(Oddity.ID_CHANGED, "first", 7)]
    draft.oddities.note(Oddity.ID_CHANGED, "third")
    assert draft.oddities.take() == []


def test_a_placeholder_is_odd() -> None:
    for pieces in every_cutting("{}" + A):
        assert odd(draft_of(*pieces)) == [Oddity.ARGUMENTS_PLACEHOLDER]
    assert odd(draft_of("{}")) == []


LONG = "x" * 70_000


def test_what_is_wrong_with_a_long_text_is_found_once() -> None:
    draft = draft_of(f'{{"a" "{LONG}"}}')

    assert draft.arguments.flaw == parse(draft.arguments.text)
    draft.add("more")
    assert draft.arguments.flaw is None


@pytest.mark.parametrize("text", ['{"a" 1}', f'{{"a" "{LONG}"}} x', f'{{"a": "{LONG}"}}'])
def test_what_may_be_repaired_or_is_right_or_goes_on_has_no_flaw_yet(text: str) -> None:
    assert draft_of(text).arguments.flaw is None


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        (['{"a": ', "1}"], {"a": 1}),
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1}, {"a": 2}], None),
        (['{"a": '], None),
        ([], None),
    ],
)
def test_arguments_so_far_are_a_value_once_they_are_one(pieces: list[Any], value: object) -> None:
    assert draft_of(*pieces).arguments.value == value
