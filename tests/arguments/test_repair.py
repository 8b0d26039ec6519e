"""Safe repairs: what stands around a value, and what may be dropped behind it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_texts import FULL_OBJECTS, STYLES, Style, write
from wholecall.arguments.parse import Parsed, parse
from wholecall.arguments.repair import REPAIRABLE, may_drop, repair
from wholecall.events import Repair

# what holds, text, value, the kinds of repair
REPAIRED = [
    # https://github.com/ducroo/SICTIC-AI/pull/37
    ("a comma in a string is text", '{"query": "a,]b",}', {"query": "a,]b"}, ["trailing_comma"]),
    # https://github.com/NousResearch/hermes-agent/pull/79333
    ("a fence", '```json\n{"path": "a.txt"}\n```', {"path": "a.txt"}, ["strip_fence"]),
    ("a fence without a language", '```\n{"a": 1}\n```\n', {"a": 1}, ["strip_fence"]),
    ("a fence on one line", '```json{"a": 1}```', {"a": 1}, ["strip_fence"]),
    ("a fence of other words", '```tool_call\n{"a": 1}\n```', {"a": 1}, ["strip_fence"]),
    ("a fence that is not closed around an object that is", '```json\n{"a": 1}', {"a": 1},
     ["strip_fence"]),
    ("a fence with prose behind it", '```\n{"a": 1}\n```\nThat is all.', {"a": 1},
     ["strip_fence", "drop_trailing"]),
    ("a fence in a string is text", "```json\n{'a': '```'}\n```", {"a": "```"},
     ["strip_fence", "python_literal"]),
    ("inline code", '`{"a": 1}`', {"a": 1}, ["strip_fence"]),
    # https://github.com/tenstorrent/tt-inference-server/issues/3683
    ("a leaked language", 'json\n{"location":"San Francisco"}', {"location": "San Francisco"},
     ["strip_prefix"]),
    ("a leaked language right before the object", 'JSON{"a": 1}', {"a": 1}, ["strip_prefix"]),
    ("a byte order mark", '\ufeff{"a": 1}', {"a": 1}, ["strip_prefix"]),
    ("a byte order mark before a fence", '\ufeff```\n{"a": 1}\n```', {"a": 1},
     ["strip_prefix", "strip_fence"]),
    # https://github.com/leohenon/pi-anthropic-oauth/issues/11
    ("a closer too many", '{"path": "a.ts", "offset": 1}}', {"path": "a.ts", "offset": 1},
     ["drop_trailing"]),
    # https://github.com/NousResearch/hermes-agent/pull/79333
    ("prose behind the object", '{"path": "a.txt"} trailing text', {"path": "a.txt"},
     ["drop_trailing"]),
    ("markup behind the object", '{"a": 1}\n</tool_call>', {"a": 1}, ["drop_trailing"]),
    # https://github.com/michelle-avery/custom-conversation/pull/49
    ("Python", "{'name': 'lamp', 'area': None, 'on': True}",
     {"name": "lamp", "area": None, "on": True}, ["python_literal"]),
    # https://github.com/livekit/agents/pull/4196
    ("raw line breaks", '{"prompt": "A timeline:\n- 1\n- 2"}', {"prompt": "A timeline:\n- 1\n- 2"},
     ["escape_control"]),
    # https://github.com/jundot/omlx/issues/1672
    ("raw and escaped tabs", '{"old": "\t\t// Check\\n\\t\\tif x"}',
     {"old": "\t\t// Check\n\t\tif x"}, ["escape_control"]),
    # https://github.com/mistralai/mistral-vibe/pull/216
    ("a Windows path", r'{"path": "C:\Projects\app"}', {"path": r"C:\Projects\app"},
     ["escape_backslash"]),
    # https://github.com/OpenHands/software-agent-sdk/issues/2488
    ("escaped line breaks between values", r'{"command": "view", "range": \n[2142, 2250]\n\n}',
     {"command": "view", "range": [2142, 2250]}, ["escaped_whitespace_outside_strings"]),
    ("keys without quotes", '{city: "Paris"}', {"city": "Paris"}, ["quote_key"]),
    # The object is found inside, at the next station.
    ("an object that lost the quotes around it", r'{\"a\": \"b\"}', '{"a": "b"}', []),
    ("the same over several lines", '{\n  \\"a\\": 1\n}\n', '{\n  "a": 1\n}', ["escape_control"]),
    ("a string in Python's quotes", """'{"a": 1}'""", '{"a": 1}', ["python_literal"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "kinds"), [r[1:] for r in REPAIRED], ids=[r[0] for r in REPAIRED]
)
def test_a_text_with_one_reading_is_repaired_and_each_repair_recorded(
    text: str, value: Any, *, kinds: list[str]
) -> None:
    repaired = repair(text)

    assert repaired is not None
    assert json.loads(repaired.text) == value
    assert [change.kind for change in repaired.repairs] == kinds
    assert all(change.safe for change in repaired.repairs)


# what holds, text
REFUSED = [
    ("prose before the object may say what it is for", 'Do not run: {"a": 1}'),
    ("a word that is no language, too", 'delete {"a": 1}'),
    ("a language and nothing else", "json"),
    ("a fence around nothing", "```json\n```"),
    ("a fence around a cut object", '```json\n{"a": 1\n```'),
    ("another object", '{"a": 1}{"b": 2}'),
    ("another object behind a fence", '```\n{"a": 1}\n```\n```\n{"b": 2}\n```'),
    ("prose behind nothing", "{} trailing text"),
    ("a closer behind nothing", "{}}"),
    ("prose behind a value that is no object", '"a" trailing text'),
    # The string's true end is still to come.
    ("an inner quote before a brace", '{"command": "echo "}" > a.txt"}'),
    ("an inner apostrophe before a brace", "{'command': 'echo '}' > a.txt'}"),
    # The object's true end is still to come.
    ("a brace too early", '{"a": {"x": 1}}, "b": 2}'),
    ("a brace too early, and keys without quotes", "{a: {x: 1}}, b: 2}"),
    ("a brace too early, and the text cut", "{a: {x: 1}}, b: 2"),
    # https://github.com/vllm-project/vllm/pull/35208
    ("an empty object where the end is missing", '{"content": "final_part"{}'),
    # https://github.com/vllm-project/vllm/pull/34887
    ("the head lost", 'code": "uptime"}'),
    # https://github.com/BaseIntelligence/bounty-challenge/issues/49580
    ("no JSON at all", "file_path=foo"),
    # https://github.com/run-llama/llama_index/issues/11921
    ("an assignment", 'query = """some long\nmulti-line string"""'),
    ("quotes escaped here and not there", r'{\"a\": "b"}'),
    ("the text too long", '{"a": "' + "x" * REPAIRABLE + '",}'),
]


@pytest.mark.parametrize("text", [r[1] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_text_without_a_single_reading_is_refused(text: str) -> None:
    assert repair(text) is None


def test_a_repair_says_what_it_changed() -> None:
    repaired = repair("```json\n{'a': 1}\n```\nDone: " + "x" * 50)

    assert repaired is not None
    assert repaired.repairs == (
        Repair("strip_fence", "```json", ""),
        Repair("python_literal", "'a'", '"a"'),
        Repair("drop_trailing", "Done: " + "x" * 33 + "…", ""),
    )


# what holds, the tail, whether it may be dropped, whether the object was Python's
TAILS = [
    ("stray closers", " } ] )\n", True, False),
    ("a stray comma", ",", True, False),
    ("escaped line breaks", "\\n\\n}", True, False),
    ("prose", " That's all.", True, False),
    ("closers, then prose", "} That is all", True, False),
    ("a special token", "<|im_end|>", True, False),
    ("a closing mark in square brackets", "[/TOOL_CALLS]", True, False),
    ("prose that closes something", " and more}", False, False),
    ("a quote", ' he said "no"', False, False),
    ("more members", ", b: 2", False, False),
    ("an apostrophe may end a string of Python's", " That's all.", False, True),
    ("prose behind Python's", " That is all.", True, True),
]


@pytest.mark.parametrize(
    ("tail", "droppable", "python"), [r[1:] for r in TAILS], ids=[r[0] for r in TAILS]
)
def test_only_what_is_surely_no_part_of_the_object_is_dropped(
    tail: str, droppable: bool, *, python: bool
) -> None:
    assert may_drop(tail, python=python) is droppable


# ── The laws ────────────────────────────────────────────────────────────────────────

# What stands before and behind the object.
FRAMES = st.sampled_from(
    [
        ("", ""),
        ("```json\n", "\n```"),
        ("```\n", "\n``` so be it"),
        ("`", "`"),
        ("json\n", ""),
        ("\ufeff", "}}"),
        (" ", " trailing text"),
        ("\n", "</tool_call>"),
    ]
)


@given(value=FULL_OBJECTS, style=STYLES, frame=FRAMES)
def test_a_repaired_text_parses_to_what_the_strict_text_means(
    value: dict[str, Any], style: Style, *, frame: tuple[str, str]
) -> None:
    before, behind = frame
    repaired = repair(before + write(value, style) + behind)

    assert repaired is not None
    assert parse(repaired.text) == Parsed(value)


@given(value=FULL_OBJECTS, style=STYLES, frame=FRAMES, data=st.data())
def test_a_text_is_repaired_from_the_objects_last_brace_on_and_never_before(
    value: dict[str, Any], style: Style, *, frame: tuple[str, str], data: st.DataObject
) -> None:
    before, behind = frame
    whole = before + write(value, style)
    text = whole + behind
    for end in {data.draw(st.integers(0, len(text))) for _ in range(4)}:
        repaired = repair(text[:end])

        if end < len(whole):
            assert repaired is None
        elif repaired is not None:
            assert parse(repaired.text) == Parsed(value)


@given(FULL_OBJECTS, st.data())
def test_an_object_in_a_string_is_not_whole_before_the_string_is(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(json.dumps(value))
    bare = text[1:-1]  # the quotes around it were lost
    end = data.draw(st.integers(0, len(bare) - 1))

    assert repair(text[: end + 1]) is None
    repaired = repair(bare[:end])
    assert repaired is None or not isinstance(inside(repaired.text), Parsed)
    repaired = repair(bare)
    assert repaired is not None
    assert inside(repaired.text) == Parsed(value)


def inside(text: str) -> object:
    held = json.loads(text)
    assert isinstance(held, str)
    return parse(held)
