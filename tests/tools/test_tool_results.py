"""What tools return, as the model gets to read it."""

import base64
import dataclasses
import datetime
import enum
import math
import tracemalloc
from typing import Any, cast

import pydantic
import pytest

from wholecall.events import JSON, Text
from wholecall.messages import Content, Media, Result
from wholecall.tools.tool import (
    MEDIA_BYTES,
    PROGRESS_CHARACTERS,
    STRUCTURED_BYTES,
    Failed,
    add_note,
    cap,
    to_progress,
    to_result,
)


class Color(enum.StrEnum):
    RED = "red"


class OldColor(str, enum.Enum):  # noqa: UP042  # the form that code from before 3.11 has
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


class City(pydantic.BaseModel):
    name: str
    since: datetime.date = datetime.date(1048, 1, 1)


PNG = b"\x89PNG\r\n\x1a\n and so on"

# what holds, the value, its text, the value kept beside it
VALUES: list[tuple[str, object, str, JSON]] = [
    ("text is itself", "sunny", "sunny", None),
    ("empty text stays empty", "", "", None),
    ("nothing is said to be nothing", None, "(no output)", None),
    ("a member of an enumeration is its value", Color.RED, "red", None),
    ("… in the older form, too", OldColor.RED, "red", None),
    ("a number", 5, "5", 5),
    ("a large number keeps its digits", 10**30, str(10**30), 10**30),
    ("a truth value", True, "true", True),
    ("an object", {"t": 21.5, "é": None}, '{"t":21.5,"é":null}', {"t": 21.5, "é": None}),
    ("an array", [1, "a"], '[1,"a"]', [1, "a"]),
    ("a tuple", (1, 2), "[1,2]", [1, 2]),
    ("an empty list", [], "[]", []),
    ("a dataclass", Point(3), '{"x":3}', {"x": 3}),
    (
        "a pydantic model",
        City(name="Oslo"),
        '{"name":"Oslo","since":"1048-01-01"}',
        {"name": "Oslo", "since": "1048-01-01"},
    ),
    ("JSON has no NaN", {"t": math.nan}, '{"t":"NaN"}', {"t": "NaN"}),
    (
        "… nor infinity",
        [math.inf, -math.inf],
        '["Infinity","-Infinity"]',
        ["Infinity", "-Infinity"],
    ),
]


@pytest.mark.parametrize(
    ("value", "text", "structured"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES]
)
def test_a_value_becomes_text_and_json(*, value: object, text: str, structured: JSON) -> None:
    result = to_result(value)
    assert result == Result((Text(text),), structured=structured)
    assert type(result.text) is str


def test_a_result_is_itself() -> None:
    result = Result((Text("no"),), failed=True)
    assert to_result(result) is result


# what holds, the bytes, the kind, the media type
FORMATS = [
    ("PNG", PNG, "image", "image/png"),
    ("JPEG", b"\xff\xd8\xff\xe0 and so on", "image", "image/jpeg"),
    ("GIF of 1987", b"GIF87a and so on", "image", "image/gif"),
    ("GIF of 1989", b"GIF89a and so on", "image", "image/gif"),
    ("WebP", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image", "image/webp"),
    ("WAV", b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio", "audio/wav"),
    ("PDF", b"%PDF-1.7 and so on", "document", "application/pdf"),
]


@pytest.mark.parametrize(
    ("value", "kind", "media_type"), [row[1:] for row in FORMATS], ids=[row[0] for row in FORMATS]
)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_bytes_are_recognised(*, make: Any, value: bytes, kind: str, media_type: str) -> None:
    [media] = to_result(make(value)).content
    assert media == Media(
        kind=kind, media_type=media_type, data=base64.b64encode(value).decode("ascii")
    )


def test_text_and_media_stand_together() -> None:
    photo = Media(kind="image", url="https://example.org/a.png")
    result = to_result(["Look:", photo, PNG, Text("there"), {"a": 1}])
    assert [type(piece).__name__ for piece in result.content] == [
        *("Text", "Media", "Media", "Text", "Text")
    ]
    assert result.text == 'Look:there{"a":1}'
    assert to_result(photo).content == (photo,)
    assert to_result(Text("a")).content == (Text("a"),)


CIRCULAR: list[object] = []
CIRCULAR.append(CIRCULAR)

# what holds, the value, what the failure says
UNUSABLE: list[tuple[str, object, str]] = [
    ("an object of any class", object(), "a value of type 'object' that cannot be written as JSON"),
    ("… inside of another", {"a": {1, object()}}, "'dict' that cannot be written as JSON"),
    ("a list that holds itself", CIRCULAR, "Circular reference"),
    ("bytes inside of an object", {"a": b"\xff"}, "'dict' that cannot be written as JSON"),
    ("a lone surrogate beside what is no JSON", ["\ud800", {1}], "surrogates not allowed"),
    ("bytes of no known kind", b"\x00\x01", "2 bytes of no known kind"),
    ("a RIFF file of another kind", b"RIFF\x00\x00\x00\x00AVI ", "no known kind"),
    ("no bytes at all", b"", "0 bytes of no known kind"),
    ("an image beyond all bounds", PNG.ljust(MEDIA_BYTES + 1), "at most 20971520 can be shown"),
]


@pytest.mark.parametrize(
    ("value", "words"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE]
)
def test_what_nobody_could_be_told_is_a_failure(value: object, words: str) -> None:
    with pytest.raises(Failed, match=words):
        to_result(value)


def test_large_json_is_kept_as_text_only() -> None:
    result = to_result(["a" * STRUCTURED_BYTES])
    assert result.structured is None
    assert len(result.text) == STRUCTURED_BYTES + 4


# ── Progress ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "progress"),
    [
        ("half", "half"),
        ({"done": 1}, {"done": 1}),
        (Point(2), {"x": 2}),
        ("a" * PROGRESS_CHARACTERS, "a" * PROGRESS_CHARACTERS),
        ("a" * (PROGRESS_CHARACTERS + 1), None),
        (["a" * PROGRESS_CHARACTERS], None),
        (Result(), None),
        (object(), None),
        (PNG, None),
        (Media(kind="image", url="u"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_progress_is_small_json(value: object, progress: JSON) -> None:
    assert to_progress(value) == progress


# ── Size ────────────────────────────────────────────────────────────────────────────

PICTURE = Media(kind="image", url="u")


@pytest.mark.parametrize(
    ("content", "limit", "expected"),
    [
        ((Text("abc"),), 3, (Text("abc"),)),
        ((), 0, ()),
        ((Text("é\ud800"),), 9, (Text("é\\ud800"),)),
        ((Text("é"), PICTURE), 9, (Text("é"), PICTURE)),
    ],
)
def test_what_is_small_enough_stays(
    *, content: tuple[Content, ...], limit: int, expected: tuple[Content, ...]
) -> None:
    result = cap(Result(content, structured={"a": 1}), limit)
    assert result == Result(expected, structured={"a": 1})


def test_the_head_is_kept_and_the_total_told() -> None:
    long = Result((Text("abc"), PICTURE, Text("defg"), Text("hi")), structured=[1])
    result = cap(long, 5)
    assert result.content[:3] == (Text("abc"), PICTURE, Text("de"))
    assert result.text == (
        "abcde\n[Cut off: these are the first 5 of 9 characters. Ask for less, or for a part.]"
    )
    assert result.structured is None, "the value would bypass the limit"


def test_a_failure_that_is_cut_stays_a_failure() -> None:
    assert cap(Result((Text("abc"),), failed=True), 1).failed


def test_a_hundred_megabytes_are_not_copied() -> None:
    huge = "a" * 100_000_000
    tracemalloc.start()
    try:
        result = cap(to_result(huge), 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "first 1000 of 100000000 characters" in result.text
    assert peak < 1_000_000


def test_a_note_stands_at_the_end() -> None:
    assert add_note(Result((Text("a"),)), "Note: b").text == "a\n\nNote: b"
    assert add_note(Result((Text("a"),)), "") == Result((Text("a"),))


# ── What tools make of results ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content", ["hello", ["hello"], (Text("hello"),), [Text("hel"), "lo"]], ids=repr
)
def test_a_result_whose_content_is_not_quite_one_is_understood(content: Any) -> None:
    assert to_result(Result(content)).text == "hello"


def test_a_result_with_a_content_that_is_none_is_a_failure() -> None:
    content: Any = 5
    with pytest.raises(Failed, match="is a int, not a tuple"):
        to_result(Result(content))


def test_the_value_of_a_result_is_json() -> None:
    value: Any = {"day": datetime.date(2026, 1, 2)}
    assert to_result(Result((), structured=value)).structured == {"day": "2026-01-02"}
    with pytest.raises(Failed, match="cannot be written as JSON"):
        to_result(Result((), structured=cast("Any", object())))


def test_half_of_a_surrogate_pair_inside_of_json_is_escaped() -> None:
    assert to_result({"name": "a\udce9"}) == Result((Text('{"name": "a\\udce9"}'),))


def test_json_that_is_too_deep_to_be_read_back_is_told_as_text() -> None:
    deep: list[Any] = []
    for _ in range(220):
        deep = [deep]
    result = to_result(deep)
    assert result.structured is None
    assert result.text == "[" * 221 + "]" * 221
