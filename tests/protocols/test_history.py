"""What may stand in a stored message: objects as arguments, and content that says something."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.protocols.history import (
    NO_OUTPUT,
    ChangeKind,
    Mending,
    Spot,
    StoredOutput,
    Target,
    drop_blanks,
    explain,
    is_blank,
    read_arguments,
    tidy,
    write_arguments,
)

CUT = '{"command":"str_replace","path":"a'
DEEP = '{"a":' * 5000 + "1" + "}" * 5000

# what holds, arguments, as an object, as a text, the text that is lost
ARGUMENTS: list[tuple[str, Any, dict[str, Any], str, str]] = [
    ("an object stays as it was written", ' {"a": 1} ', {"a": 1}, ' {"a": 1} ', ""),
    (
        "big numbers keep their digits",
        '{"n":12345678901234567890123}',
        {"n": 12345678901234567890123},
        '{"n":12345678901234567890123}',
        "",
    ),
    ("no arguments stay as they were written", "{ }", {}, "{ }", ""),
    ("an object that was not written down", {"a": 1}, {"a": 1}, '{"a":1}', ""),
    ("nothing", None, {}, "{}", ""),
    ("an empty text", "", {}, "{}", ""),
    ("white space", " \n", {}, "{}", ""),
    ("null", " null ", {}, "{}", ""),
    # https://github.com/OpenHands/OpenHands/issues/13949
    ("a cut text", CUT, {}, "{}", CUT),
    ("a list", "[1]", {}, "{}", "[1]"),
    ("a list that was not written down", [1], {}, "{}", "[1]"),
    ("a number", 5, {}, "{}", "5"),
    ("an object in a text", '"{\\"a\\":1}"', {"a": 1}, '{"a":1}', ""),
    ("a text in a text", '"a"', {}, "{}", '"a"'),
    ("an object in two texts", '"\\"{}\\""', {}, "{}", '"\\"{}\\""'),
    ("an object and more", '{"a":1}{"a":1}', {}, "{}", '{"a":1}{"a":1}'),
    ("a number that is none", '{"a":NaN}', {}, "{}", '{"a":NaN}'),
    ("half a character", '{"a":"\ud800"}', {}, "{}", '{"a":"\ud800"}'),
    ("deeper than anybody follows", DEEP, {}, "{}", DEEP[:500]),
    ("what is no JSON at all", object, {}, "{}", "<type>"),
]


@pytest.mark.parametrize(
    ("value", "arguments", "lost"),
    [(r[1], r[2], r[4]) for r in ARGUMENTS],
    ids=[r[0] for r in ARGUMENTS],
)
def test_arguments_are_read_as_an_object(
    value: Any, arguments: dict[str, Any], *, lost: str
) -> None:
    assert read_arguments(value) == (arguments, lost)


@pytest.mark.parametrize(
    ("value", "text", "lost"),
    [(r[1], r[3], r[4]) for r in ARGUMENTS],
    ids=[r[0] for r in ARGUMENTS],
)
def test_arguments_are_written_as_a_text(value: Any, text: str, *, lost: str) -> None:
    assert write_arguments(value) == (text, lost)
    assert write_arguments(text) == (text, "")


def test_an_object_that_cannot_be_written_is_lost_and_said() -> None:
    assert write_arguments({"a": object()}) == ("{}", "<dict>")


@given(st.text())
def test_whatever_is_written_is_an_object(text: str) -> None:
    written, lost = write_arguments(text)

    assert read_arguments(written)[1] == ""
    assert len(lost) <= 500
    assert lost == "" or text.startswith(lost)


def test_a_result_tells_what_became_of_the_arguments() -> None:
    assert explain(CUT).endswith(f"shown as {{}}. Received: {CUT}")


# what holds, parts, those that say something
PARTS: list[tuple[str, list[Any], list[Any]]] = [
    ("an empty text goes", [{"type": "text", "text": ""}], []),
    ("so does white space", [{"type": "input_text", "text": " \n"}], []),
    (
        "a text stays",
        [{"type": "output_text", "text": "a"}],
        [{"type": "output_text", "text": "a"}],
    ),
    ("an image has no text", [{"type": "image"}], [{"type": "image"}]),
    (
        "empty thinking is signed",
        [{"type": "thinking", "thinking": "", "text": ""}],
        [{"type": "thinking", "thinking": "", "text": ""}],
    ),
    ("a text without text is not ours to judge", [{"type": "text"}], [{"type": "text"}]),
    (
        "what cannot be read stays",
        [None, {"type": ["text"], "text": ""}],
        [None, {"type": ["text"], "text": ""}],
    ),
]


@pytest.mark.parametrize(("parts", "kept"), [r[1:] for r in PARTS], ids=[r[0] for r in PARTS])
def test_parts_that_say_nothing_are_dropped(parts: list[Any], kept: list[Any]) -> None:
    assert drop_blanks(parts) == kept


def test_only_a_text_can_be_blank() -> None:
    assert is_blank("")
    assert is_blank("\t")
    assert not is_blank("a")
    assert not is_blank(None)


BLANK, WORD = {"type": "text", "text": ""}, {"type": "text", "text": "a"}

# what holds, content, what is left, whether it is reported
TIDIED: list[tuple[str, Any, Any, bool]] = [
    ("a text is left alone", "", "", False),
    ("parts that say something stay", [WORD], [WORD], False),
    ("the others go", [BLANK, WORD], [WORD], True),
    ("nothing may be left", [BLANK], [], True),
    ("nothing is reported as nothing", [], [], True),
]


@pytest.mark.parametrize(
    ("content", "left", "told"), [r[1:] for r in TIDIED], ids=[r[0] for r in TIDIED]
)
def test_a_message_is_tidied(content: Any, left: Any, *, told: bool) -> None:
    mending = Mending(Target())
    message = {"role": "user", "content": content}

    assert tidy(message, Spot(0, mending)) == {"role": "user", "content": left}
    assert bool(mending.changes) is told


OUTPUT = StoredOutput("content", "text")
SILENT = {"type": "text", "text": NO_OUTPUT}
IMAGE = {"type": "image"}

# what holds, content, filled
FILLED: list[tuple[str, Any, Any]] = [
    ("nothing", None, NO_OUTPUT),
    ("an empty text", "", NO_OUTPUT),
    ("white space", " \n", NO_OUTPUT),
    ("no parts", [], [SILENT]),
    ("an empty part", [BLANK], [SILENT]),
    ("an empty part beside an image", [BLANK, IMAGE], [IMAGE]),
]


@pytest.mark.parametrize(("content", "filled"), [r[1:] for r in FILLED], ids=[r[0] for r in FILLED])
def test_a_result_that_says_nothing_says_so(content: Any, filled: Any) -> None:
    mending = Mending(Target())

    assert OUTPUT.fill_blank({"content": content}, Spot(0, mending)) == {"content": filled}
    assert [change.kind for change in mending.changes] == [ChangeKind.RESULT_BLANK]


# what holds, content, its text
ENCODED: list[tuple[str, Any, str]] = [
    ("an object", {"a": 1}, '{"a":1}'),
    ("a number", 5, "5"),
    ("a list of texts", ["a"], '["a"]'),
    ("a list of objects", [{"a": 1}], '[{"a":1}]'),
]


@pytest.mark.parametrize(("content", "text"), [r[1:] for r in ENCODED], ids=[r[0] for r in ENCODED])
def test_a_result_that_is_no_content_becomes_its_text(content: Any, text: str) -> None:
    mending = Mending(Target())

    assert OUTPUT.fill_blank({"content": content}, Spot(0, mending)) == {"content": text}
    assert [change.kind for change in mending.changes] == [ChangeKind.RESULT_ENCODED]


@pytest.mark.parametrize("content", ["a", [WORD], [IMAGE]])
def test_a_result_that_says_something_stays(content: Any) -> None:
    mending = Mending(Target())

    assert OUTPUT.fill_blank({"content": content}, Spot(0, mending)) == {"content": content}
    assert mending.changes == []


# what holds, result, with words
ANNOTATED: list[tuple[str, dict[str, Any], Any]] = [
    ("a text", {"content": "Error"}, "Error\n\nwords"),
    ("parts", {"content": [IMAGE]}, [IMAGE, {"type": "text", "text": "words"}]),
    ("no content", {}, "words"),
]


@pytest.mark.parametrize(
    ("result", "content"), [r[1:] for r in ANNOTATED], ids=[r[0] for r in ANNOTATED]
)
def test_words_are_added_to_a_result(result: dict[str, Any], content: Any) -> None:
    assert OUTPUT.annotate(result, "words") == {"content": content}
