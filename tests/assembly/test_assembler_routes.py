"""Whichever way a server numbers, names and repeats its calls, the right ones come out."""

import pytest

from recut import oddities, play, play_every_way, say, write
from wholecall.events import CallDelta, CallSealed, Delta, Hint, HintGiven, Terminated
from wholecall.messages import ToolSpec

TOOLS = [*map(ToolSpec, ("find", "list", "edit", "edit_file", "run"))]
GOOD: list[Delta] = [HintGiven(Hint.TOOL_CALLS, "tool_calls"), Terminated()]


# ── Which delta belongs to which call ───────────────────────────────────────────────

# what holds, the deltas of a turn that ends well, the verdicts, what is odd
ROUTES = [
    (
        "calls are interleaved by their slots",
        '0 a find {"x": | 1 b list {"y": | 0 - - 1} | 1 - - 2}',
        'a find {"x": 1} | b list {"y": 2}',
        "",
    ),
    ("slots may begin at 1", '1 a find {"x":1} | 2 b list {}', 'a find {"x": 1} | b list {}', ""),
    ("slots may be missing", '- a find {"x": | - - - 1}', 'a find {"x": 1}', "slot_missing"),
    (
        "slots may be missing, ids in each piece",
        '- a find {"x": | - b list {"y": | - a - 1} | - b - 2}',
        'a find {"x": 1} | b list {"y": 2}',
        "slot_missing",
    ),
    (
        "slots may all be zero",
        '0 a find {"x": | 0 - - 1} | 0 b find {"x": | 0 - - 2}',
        'a find {"x": 1} | b find {"x": 2}',
        "slot_reused",
    ),
    (
        "slots may all be zero, and no ids",
        '0 - find {"x":1} | 0 - find {"x":2} | 0 - list {"y":3}',
        'new_0 find {"x": 1} | new_1 find {"x": 2} | new_2 list {"y": 3}',
        "slot_reused id_missing",
    ),
    (
        "a slot may be used again",
        '0 a find {"x":1} | 1 b list {"y":2} | 0 c run {"z":3}',
        'a find {"x": 1} | b list {"y": 2} | c run {"z": 3}',
        "slot_reused",
    ),
    (
        "a new id on a used slot is a new call, and the open one stays open",
        '0 a find {"x": | 0 b list {"x":2}',
        'truncated find | b list {"x": 2}',
        "slot_reused",
    ),
    (
        "an id may be made up for every piece, with the name again",
        '0 a find {" | 0 b find x": | 0 c find {"y": 1} | 0 d find }',
        'a find {"x": {"y": 1}}',
        "id_changed name_repeated",
    ),
    (
        "of the same tool it may be a piece of the open one, so neither runs",
        '0 a find {"x": | 0 b find {"x":2} | 0 c find }',
        "truncated find | ambiguous find | bad_json find",
        "slot_reused",
    ),
    (
        "unless the open one comes to its own end",
        '0 a find {"x": | 0 b find {"x":2} | 0 a - 1}',
        'a find {"x": 1} | b find {"x": 2}',
        "slot_reused",
    ),
    (
        "a head in slot 0 may have its tail in slot 1",
        '0 a find {"x":1} | 0 b list {"y": | 1 b - 2}',
        'a find {"x": 1} | b list {"y": 2}',
        "slot_reused",
    ),
    ("an id may be missing", '0 - find {"x":1}', 'new_0 find {"x": 1}', "id_missing"),
    ("an id may be late", '0 - edit | 0 a - {"x":1}', 'a edit {"x": 1}', ""),
    ("an id may be repeated", '0 a find {"x": | 0 a - 1}', 'a find {"x": 1}', ""),
    ("an id may be a word for nothing", '0 a find {"x": | 0 null - 1}', 'a find {"x": 1}', ""),
    ("an id may change", '0 a find {"x": | 0 b - 1 | 0 a - }', 'a find {"x": 1}', "id_changed"),
    (
        "an id may be used for two calls; ours are unique",
        '0 a find {"x":1} | 1 a list {"y":2}',
        'a find {"x": 1} | new_0 list {"y": 2}',
        "id_reused",
    ),
    (
        "slot and id may be shared by two names",
        '0 a find {"x":1} | 0 a list {"y":2}',
        'a find {"x": 1} | new_0 list {"y": 2}',
        "slot_reused id_reused",
    ),
    (
        "a name may be repeated",
        '0 a find {"x" | 0 - find :1 | 0 a find }',
        'a find {"x": 1}',
        "name_repeated",
    ),
    (
        "a name may be split",
        '0 a ed | 0 - it_file | 0 - - {"x":1}',
        'a edit_file {"x": 1}',
        "name_split",
    ),
    (
        "a name may grow as a whole",
        '0 a edit | 0 - edit_file {"x":1}',
        'a edit_file {"x": 1}',
        "name_split",
    ),
    ("a name may be late", '0 a - {"x": | 0 - find 1}', 'a find {"x": 1}', ""),
    ("a name may be missing", '0 a - {"x":1}', "no_name -", ""),
    ("a name may be unknown", '0 a rm {"x":1}', "unknown_tool rm", ""),
    ("a name may have blanks around it", "0 a \tfind {}", "a find {}", ""),
    (
        "the object again is dropped",
        '0 a find {"x":" y "} | 0 - - {"x":" y "}',
        'a find {"x": " y "}',
        "arguments_repeated",
    ),
    (
        "the object again, with its name, is dropped",
        '0 a find {"x":1} | 0 - find {"x": 1}',
        'a find {"x": 1} | again 0',
        "slot_reused id_missing",
    ),
    (
        "the object again, with name and id, in another slot, is dropped",
        '0 a find {"x":1} | 1 a find {"x":1} | 2 a find {"x":1}',
        'a find {"x": 1} | again 0 | again 0',
        "id_reused",
    ),
    (
        "so is a rejected call, sent again",
        '0 a rm {"x":1} | 1 a rm {"x":1}',
        "unknown_tool rm | again 0",
        "id_reused",
    ),
    (
        "a call is no repeat of a rejected one",
        '0 a find {"x": | 1 a find {"x":1}',
        'truncated find | new_0 find {"x": 1}',
        "id_reused",
    ),
    (
        "another object, announced by its name, is another call",
        '0 a find {"x":1} | 0 - find {"x":2}',
        'a find {"x": 1} | new_0 find {"x": 2}',
        "slot_reused id_missing",
    ),
    (
        "another object, announced by a name that came before it",
        '0 a find {"x":1} | 0 - find | 0 - - {"x":2}',
        'a find {"x": 1} | new_0 find {"x": 2}',
        "slot_reused id_missing",
    ),
    (
        "another object, announced by an id that came before its name",
        '0 a find {"x":1} | 0 b - | 0 - find {"x":2}',
        'a find {"x": 1} | b find {"x": 2}',
        "slot_reused",
    ),
    (
        "another object, not announced, is ambiguous",
        '0 a find {"x":1} | 0 - - {"x":2}',
        "ambiguous find",
        "",
    ),
    ("and so is another in the same piece", '0 a find {"x":1}{"x":2}', "ambiguous find", ""),
    ("the rest of an object is no prose", '0 a find {"x":{}}, "y":2}', "bad_json find", ""),
    ("a stray closer is dropped", '0 a find {"x":1}}', 'a find {"x": 1}', "text_after_object"),
    (
        "`{}` may come first",
        '0 a find {} | 0 - - {"x":1}',
        'a find {"x": 1}',
        "arguments_placeholder",
    ),
    ("`{}` may come last", '0 a find {"x":1} | 0 - - {}', 'a find {"x": 1}', "arguments_repeated"),
    ("`{}` and nothing else means no arguments", "0 a find {}", "a find {}", ""),
    ("so do blanks", "0 a find  \n", "a find {}", ""),
    ("so does nothing", "0 a find | 1 b list", "a find {} | b list {}", ""),
    (
        "the whole text at the end is the same text",
        '0 a find {"x":1} | seal 0 {"x":1}',
        'a find {"x": 1}',
        "",
    ),
    ("or the text that never came", '0 a find | seal 0 {"x":1}', 'a find {"x": 1}', ""),
    ("or another one", '0 a find {"x":1} | seal 0 {"x":2}', "ambiguous find", ""),
]


@pytest.mark.parametrize(
    ("lines", "verdicts", "odd"), [row[1:] for row in ROUTES], ids=[row[0] for row in ROUTES]
)
def test_every_delta_finds_its_call(lines: str, verdicts: str, *, odd: str) -> None:
    events = play_every_way([*write(lines), *GOOD], TOOLS)
    assert say(events) == verdicts
    assert oddities(events) == set(odd.split())


# what holds, the deltas of a turn that ends well, the verdicts, what is odd
PIECES: list[tuple[str, list[Delta], str, str]] = [
    (
        "each piece may be all there is",
        write('0 a find {"x": | 0 - - {"x": "y | 0 - - {"x": "yz"}'),
        'a find {"x": "yz"}',
        "arguments_cumulative",
    ),
    (
        "an empty piece between them changes nothing",
        write('0 a find {"x": | 0 - - | 0 - - {"x": "y"}'),
        'a find {"x": "y"}',
        "arguments_cumulative",
    ),
    (
        "if none is whole, there is no call",
        write('0 a find {"x": | 0 - - {"x": "y'),
        "truncated find",
        "",
    ),
    (
        "arguments may be an object",
        [CallDelta(0, {"x": 1}, "find", "a")],
        'a find {"x": 1}',
        "arguments_object",
    ),
    (
        "objects may grow",
        [CallDelta(0, {"x": "y"}, "find", "a"), CallDelta(0, {"x": "z"})],
        'a find {"x": "yz"}',
        "arguments_object",
    ),
    (
        "objects that contradict each other are ambiguous",
        [CallDelta(0, {"x": 1}, "find", "a"), CallDelta(0, {"x": 2})],
        "ambiguous find",
        "arguments_object",
    ),
    (
        "an object that a name announces is another call",
        [CallDelta(0, {"x": 1}, "find", "a"), CallDelta(0, {"x": 2}, "find", "b")],
        'a find {"x": 1} | b find {"x": 2}',
        "arguments_object slot_reused",
    ),
    (
        "an empty object is no proof, and no contradiction",
        [CallDelta(0, {}, "find", "a"), CallDelta(0, '{"x": 1}')],
        'a find {"x": 1}',
        "arguments_object",
    ),
    (
        "a list is no object, and not nothing",
        [CallDelta(0, [], "find", "a")],  # type: ignore[arg-type]  # a wire's Any
        "not_object find",
        "",
    ),
    (
        "half a character is told and does no harm",
        [CallDelta(0, {"x": "\ud800"}, "find", "a")],
        'a find {"x": "\\ufffd"}',
        "arguments_object",
    ),
    (
        "what a protocol opens is a call of its own",
        [
            *(CallDelta(None, "{}", "find", opens=True), CallSealed()),
            *(CallDelta(None, "{}", "find", opens=True), CallSealed()),
        ],
        "new_0 find {} | new_1 find {}",
        "id_missing",
    ),
    (
        "what a protocol opens and never seals was cut before its first byte",
        [CallDelta(0, None, "find", "a", opens=True)],
        "truncated find",
        "",
    ),
    (
        "an object that comes with its whole address each time grows",
        [CallDelta(0, {"x": "a"}, "find", "a"), CallDelta(0, {"x": "ab"}, "find", "a")],
        'a find {"x": "ab"}',
        "arguments_object",
    ),
    (
        "to JSON, 0 and false are two things",
        [CallDelta(0, '{"x": 0}', "find", "a"), CallDelta(0, '{"x": false}')],
        "ambiguous find",
        "",
    ),
]


@pytest.mark.parametrize(
    ("deltas", "verdicts", "odd"), [row[1:] for row in PIECES], ids=[row[0] for row in PIECES]
)
def test_pieces_that_mean_something_are_not_cut(
    deltas: list[Delta], verdicts: str, *, odd: str
) -> None:
    events = play([*deltas, *GOOD], TOOLS)
    assert say(events) == verdicts
    assert oddities(events) == set(odd.split())
