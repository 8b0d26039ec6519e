"""The verdict on a draft: every ending by every kind of draft, cell by cell."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from wholecall.arguments.coerce import CoercionOptions
from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.call_builder import Draft
from wholecall.assembly.verdict import Ending, Judge, ending_of
from wholecall.events import Call, Evidence, Hint, Rejected, Start
from wholecall.messages import ToolSpec

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": []}
OFFER = {
    "now": ToolSpec("now"),
    "find": ToolSpec("find", SCHEMA),
    "early": ToolSpec("early", SCHEMA, start=Start.CLOSED),
    "soon": ToolSpec("soon", SCHEMA, start=Start.SEALED),
    "far": ToolSpec("far", {"$ref": "#/$defs/all", "$defs": {"all": SCHEMA}}),
    "broken": ToolSpec("broken", {"properties": 5}),
}
SEAL = object()


def draft_of(*pieces: Any, name: str = "find") -> Draft:
    draft = Draft(3, DEFAULT)
    draft.name, draft.id, draft.provider_id = name, "ours", "theirs"
    draft.extras = {"signature": "s"}
    for piece in pieces:
        if piece is SEAL:
            draft.seal()
        else:
            draft.add(piece)
    return draft


def say(verdict: Call | Rejected) -> str:
    return "call" if isinstance(verdict, Call) else verdict.reason.value


# ── The table ───────────────────────────────────────────────────────────────────────


def came(*pieces: Any, name: str = "find") -> Callable[[], Draft]:
    """A draft that is made for each test, since a verdict leaves its traces on it."""
    return partial(draft_of, *pieces, name=name)


A = '{"a": 1}'
NESTED = '{"a":' * 129

# A kind of draft: what came; the verdict after a GOOD end; the verdict at the LENGTH limit.
KINDS: dict[str, tuple[Callable[[], Draft], str, str]] = {
    "a whole object": (came(A), "call", "call"),
    "a whole object, sealed": (came(A, SEAL), "call", "call"),
    "a whole object, sent twice": (came(A, A), "call", "call"),
    "a whole object and a stray closer": (came(A, "}"), "call", "call"),
    "a whole object and prose": (came(A, " Done."), "call", "truncated"),
    "an object instead of text": (came({"a": 1}), "call", "truncated"),
    "an object instead of text, sealed": (came({"a": 1}, SEAL), "call", "truncated"),
    "an object and the same as text": (came({"a": 1}, A, SEAL), "call", "call"),
    "nothing": (came(), "call", "truncated"),
    "nothing, sealed": (came(SEAL), "call", "truncated"),
    "blanks": (came(" \n"), "call", "truncated"),
    "`{}`": (came("{}"), "call", "truncated"),
    "`{}`, sealed": (came("{}", SEAL), "call", "truncated"),
    "an empty object instead of text": (came({}), "call", "truncated"),
    "an open object": (came('{"a": 1'), "truncated", "truncated"),
    "an open object, sealed": (came('{"a": 1', SEAL), "truncated", "truncated"),
    "a lone brace": (came("{"), "truncated", "truncated"),
    "other syntax": (came("{'a': 1,}"), "call", "truncated"),
    "other syntax, cut": (came("{'a': 1,"), "bad_json", "truncated"),
    "an object in a string": (came('"{\\"a\\": 1}"'), "call", "not_object"),
    "each piece all there is": (came('{"a"', A), "call", "truncated"),
    "no JSON": (came("a = 1"), "bad_json", "truncated"),
    "an object that goes on": (came(A, ', "b": 2}'), "bad_json", "truncated"),
    "a list": (came([A]), "not_object", "not_object"),
    "a number": (came(5), "not_object", "not_object"),
    "two objects": (came(A, '{"a": 2}'), "ambiguous", "ambiguous"),
    "two objects instead of text": (came({"a": 1}, {"a": 2}, SEAL), "ambiguous", "truncated"),
    "an object and other text": (came({"a": 1}, "{", SEAL), "ambiguous", "truncated"),
    "arguments that break the schema": (came('{"a": []}'), "schema", "schema"),
    "no name": (came(A, name=" "), "no_name", "truncated"),
    "an unknown tool": (came(A, name="rm"), "unknown_tool", "unknown_tool"),
    "an unknown tool and nothing": (came(name="rm"), "unknown_tool", "truncated"),
    "an unknown tool, cut": (came('{"a', name="rm"), "truncated", "truncated"),
    "too deep": (came(NESTED), "limit", "limit"),
    "endless white space": (came(" " * 2000), "degenerate", "degenerate"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_good_end_whole_calls_run(kind: str) -> None:
    draft, good, _ = KINDS[kind]
    assert say(Judge(OFFER).judge(draft(), Ending.GOOD)) == good


@pytest.mark.parametrize("kind", KINDS)
def test_at_the_limit_only_what_is_proven_runs(kind: str) -> None:
    draft, _, at_length = KINDS[kind]
    assert say(Judge(OFFER).judge(draft(), Ending.LENGTH)) == at_length


# What holds at the limit, what came, what is known of the draft, the verdict.
AT_THE_LIMIT: list[tuple[str, tuple[Any, ...], dict[str, bool], str]] = [
    ("an object that the answer went on after", ({"a": 1},), {"is_last": False}, "call"),
    ("two that contradict each other", ({"a": 1}, {"a": 2}), {"is_last": False}, "ambiguous"),
    ("`{}` in a text that sealed it", ("{}", SEAL), {"written": True}, "call"),
    ("nothing in a text that sealed it", (SEAL,), {"written": True}, "truncated"),
    ("an open object in a text that sealed it", ("{", SEAL), {"written": True}, "truncated"),
    ("`{}`, sealed and followed", ("{}", SEAL), {"seals": True, "is_last": False}, "call"),
    ("`{}` as an object, so", ({}, SEAL), {"seals": True, "is_last": False}, "call"),
    ("nothing, so", (SEAL,), {"seals": True, "is_last": False}, "call"),
    ("nothing that a seal should follow", (), {"seals": True, "is_last": False}, "truncated"),
    ("`{}`, sealed and last", ("{}", SEAL), {"seals": True}, "truncated"),
    ("`{}` that a seal should follow", ("{}",), {"seals": True, "is_last": False}, "truncated"),
    ("`{}` that nothing seals", ("{}",), {"is_last": False}, "truncated"),
    ("a whole object that is a guess", (A, SEAL), {"guessed": True}, "truncated"),
    ("also if it was followed", (A, SEAL), {"guessed": True, "is_last": False}, "truncated"),
    ("`{}` that is a guess", ("{}", SEAL), {"guessed": True, "written": True}, "truncated"),
]


@pytest.mark.parametrize(
    ("pieces", "known", "verdict"),
    [row[1:] for row in AT_THE_LIMIT],
    ids=[r[0] for r in AT_THE_LIMIT],
)
def test_what_is_proven_at_the_limit(
    *, pieces: tuple[Any, ...], known: dict[str, bool], verdict: str
) -> None:
    draft = draft_of(*pieces)
    for name, value in known.items():
        setattr(draft.relations if name == "is_last" else draft.boundary, name, value)
    judged = Judge(OFFER).judge(draft, Ending.LENGTH)
    assert say(judged) == verdict
    assert isinstance(judged, Rejected) or Evidence.CLOSED in judged.evidence


def test_a_guess_does_not_start_early() -> None:
    draft = draft_of(A, SEAL, name="early")
    assert Judge(OFFER).may_start(draft)
    draft.boundary.guessed = True
    assert not Judge(OFFER).may_start(draft)
    assert isinstance(Judge(OFFER).judge(draft, Ending.GOOD), Call)


NOTHING_RUNS = {
    Ending.DROPPED: "stream_dropped",
    Ending.FAILED: "stream_dropped",
    Ending.FILTERED: "content_filter",
    Ending.MALFORMED: "malformed_by_provider",
}


@pytest.mark.parametrize("ending", NOTHING_RUNS)
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_bad_end_nothing_runs(kind: str, ending: Ending) -> None:
    draft, _, _ = KINDS[kind]
    other = {"too deep": "limit", "endless white space": "degenerate"}
    if ending is Ending.FAILED:
        other["no name"] = "no_name"  # it may be what failed
    assert say(Judge(OFFER).judge(draft(), ending)) == other.get(kind, NOTHING_RUNS[ending])


# ── While the turn runs ─────────────────────────────────────────────────────────────

# what holds, the draft, whether it may start now
STARTS = [
    ("a closed object, if that is enough", draft_of(A, name="early"), True),
    ("an open one never", draft_of('{"a": 1', name="early"), False),
    ("`{}` never", draft_of("{}", SEAL, name="early"), False),
    ("an object has no brace that proves it", draft_of({"a": 1}, SEAL, name="early"), False),
    ("a closed object waits for its seal", draft_of(A, name="soon"), False),
    ("a sealed one need not wait", draft_of(A, SEAL, name="soon"), True),
    ("a seal alone is not enough", draft_of('{"a', SEAL, name="soon"), False),
    ("a tool with side effects waits for the end", draft_of(A, SEAL, name="find"), False),
    ("so does one that nobody offered", draft_of(A, SEAL, name="rm"), False),
]


@pytest.mark.parametrize(
    ("draft", "starts"), [row[1:] for row in STARTS], ids=[row[0] for row in STARTS]
)
def test_the_tool_s_policy_says_when_a_call_may_start(draft: Draft, starts: bool) -> None:
    judge = Judge(OFFER)
    assert judge.may_start(draft) is starts
    if starts:
        verdict = judge.judge(draft)
        assert isinstance(verdict, Call)
        assert Evidence.CONFIRMED not in verdict.evidence


def test_nothing_starts_early_if_nobody_said_which_tools_exist() -> None:
    assert not Judge().may_start(draft_of(A, SEAL, name="early"))


def test_what_follows_the_brace_is_no_reason_to_wait() -> None:
    """It may come with the next chunk as well, and the cut must change nothing."""
    assert say(Judge(OFFER).judge(draft_of(A, '{"a": 2}', name="early"))) == "call"


def test_what_came_before_the_seal_is_looked_at() -> None:
    assert say(Judge(OFFER).judge(draft_of(A, '{"a": 2}', SEAL, name="soon"))) == "ambiguous"


# ── What a call and a rejection hold ────────────────────────────────────────────────


def test_a_call_holds_all_that_the_draft_knew() -> None:
    draft = draft_of('{"a": "1"}', name=" find ")
    assert Judge().judge(draft, Ending.GOOD) == Call(
        id="ours",
        name="find",
        arguments={"a": "1"},
        raw='{"a": "1"}',
        evidence=Evidence.CLOSED | Evidence.CONFIRMED,
        number=3,
        provider_id="theirs",
        extras={"signature": "s"},
    )


def test_a_call_has_the_name_that_was_offered() -> None:
    call = Judge(OFFER).judge(draft_of(A, name="functions.find"), Ending.GOOD)
    assert isinstance(call, Call)
    assert call.name == "find"


def test_a_rejection_holds_all_that_the_draft_knew() -> None:
    verdict = Judge(OFFER).judge(draft_of('{"a', name="find"), Ending.LENGTH)
    assert isinstance(verdict, Rejected)
    assert (verdict.name, verdict.id, verdict.provider_id) == ("find", "ours", "theirs")
    assert (verdict.raw, verdict.number, verdict.extras) == ('{"a', 3, {"signature": "s"})
    assert "cut off by the output limit" in verdict.detail


def test_a_rejection_without_name_says_so() -> None:
    verdict = Judge().judge(draft_of(A, name=""), Ending.GOOD)
    assert isinstance(verdict, Rejected)
    assert verdict.name is None


def test_problems_with_the_schema_are_handed_on() -> None:
    verdict = Judge(OFFER).judge(draft_of('{"a": []}'), Ending.GOOD)
    assert isinstance(verdict, Rejected)
    assert verdict.problems


def test_only_a_good_end_confirms() -> None:
    draft = draft_of(A)
    verdict = Judge().judge(draft, Ending.LENGTH)
    assert isinstance(verdict, Call)
    assert verdict.evidence is draft.evidence is Evidence.CLOSED


# what holds, the draft, the arguments, the repair or the oddity
CHANGES = [
    ("nothing is `{}`", draft_of(), {}, ""),
    ("`{}` gives way to `{}`", draft_of("{}", "{}"), {}, "arguments_placeholder"),
    ("an equal repeat is dropped", draft_of(A, A), {"a": 1}, "arguments_repeated"),
    ("a stray closer, too", draft_of(A, "}"), {"a": 1}, "drop_trailing text_after_object"),
    ("the last of many snapshots", draft_of('{"a"', A), {"a": 1}, "arguments_cumulative"),
    ("a safe repair", draft_of("{'a': 1}"), {"a": 1}, "python_literal"),
]


@pytest.mark.parametrize(
    ("draft", "arguments", "told"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_every_change_is_told(draft: Draft, arguments: dict[str, Any], *, told: str) -> None:
    verdict = Judge(OFFER).judge(draft, Ending.GOOD)
    assert isinstance(verdict, Call)
    assert verdict.arguments == arguments
    repairs = [repair.kind for repair in verdict.repairs]
    assert [*repairs, *(note.oddity.value for note in draft.oddities.take())] == told.split()


def test_snapshots_that_are_never_whole_are_no_call() -> None:
    assert say(Judge(OFFER).judge(draft_of('{"a"', '{"a": '), Ending.GOOD)) == "bad_json"


def test_a_real_text_after_an_empty_end_is_not_taken_for_nothing() -> None:
    draft = draft_of("{}", SEAL)
    draft.seal(A)
    assert say(Judge(OFFER).judge(draft, Ending.GOOD)) == "ambiguous"


# what holds, the draft whose place this one took, whether this one may start, the verdict
RIVALS = [
    (
        "a call that never came to its end may be continued in this one",
        '{"a": ',
        False,
        "ambiguous",
    ),
    ("a whole one is another call", A, True, "call"),
    ("so is one that had not begun", "", True, "call"),
]


@pytest.mark.parametrize(
    ("text", "starts", "verdict"), [row[1:] for row in RIVALS], ids=[row[0] for row in RIVALS]
)
def test_a_call_in_the_place_of_an_open_one_is_contested(
    text: str, starts: bool, *, verdict: str
) -> None:
    draft = draft_of(A, name="early")
    draft.relations.rival = draft_of(text, name="early")
    assert Judge(OFFER).may_start(draft) is starts
    assert say(Judge(OFFER).judge(draft, Ending.GOOD)) == verdict


def test_a_protocol_that_seals_its_calls_has_sealed_the_empty_ones() -> None:
    draft = draft_of()
    draft.boundary.seals = True
    assert say(Judge(OFFER).judge(draft, Ending.GOOD)) == "truncated"
    draft.seal()
    assert say(Judge(OFFER).judge(draft, Ending.GOOD)) == "call"


# ── An upstream that hides cuts ─────────────────────────────────────────────────────

# what holds, the tool, what came, the verdict
HIDDEN = [
    ("`{}` is no proof for a tool with parameters", "find", "{}", "truncated"),
    ("nor is nothing", "find", "", "truncated"),
    ("it is for a tool without", "now", "{}", "call"),
    ("or for one that does no harm", "early", "{}", "call"),
    ("it is none for a tool that starts on its seal", "soon", "{}", "truncated"),
    ("nor for one with parameters behind a reference", "far", "{}", "truncated"),
    ("nor for one whose definition is broken", "broken", "{}", "truncated"),
    ("a whole object is a proof everywhere", "find", A, "call"),
    ("an unknown tool is still unknown", "rm", "{}", "unknown_tool"),
]


@pytest.mark.parametrize(
    ("name", "text", "verdict"), [row[1:] for row in HIDDEN], ids=[row[0] for row in HIDDEN]
)
def test_an_upstream_may_hide_that_it_was_cut(name: str, text: str, *, verdict: str) -> None:
    judge = Judge(OFFER, hides_truncation=True)
    assert say(judge.judge(draft_of(text, name=name), Ending.GOOD)) == verdict


def test_options_reach_the_coercion() -> None:
    listed = {"type": "object", "properties": {"a": {"enum": ["one"]}}, "required": ["a"]}
    draft, offer = draft_of('{"a": "ONE"}'), {"find": ToolSpec("find", listed)}

    assert say(Judge(offer).judge(draft, Ending.GOOD)) == "schema"
    verdict = Judge(offer, coercion=CoercionOptions(enum_case=True)).judge(draft, Ending.GOOD)
    assert isinstance(verdict, Call)
    assert verdict.arguments == {"a": "one"}


def test_it_hides_cuts_of_tools_that_nobody_described() -> None:
    assert say(Judge(hides_truncation=True).judge(draft_of("{}"), Ending.GOOD)) == "truncated"


# ── Endings ─────────────────────────────────────────────────────────────────────────

ENDINGS = {
    None: Ending.GOOD,
    Hint.STOP: Ending.GOOD,
    Hint.TOOL_CALLS: Ending.GOOD,
    Hint.PAUSE: Ending.GOOD,
    Hint.UNKNOWN: Ending.GOOD,
    Hint.LENGTH: Ending.LENGTH,
    Hint.CONTENT_FILTER: Ending.FILTERED,
    Hint.MALFORMED: Ending.MALFORMED,
    Hint.ERROR: Ending.FAILED,
}


@pytest.mark.parametrize("hint", [None, *Hint])
def test_a_hint_is_believed_in_the_negative(hint: Hint | None) -> None:
    assert ending_of(hint) is ENDINGS[hint]
