import enum
import json
from collections import ChainMap
from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from wholecall.errors import ProtocolError
from wholecall.events import Fault, FaultKind, Terminated, Text, Usage
from wholecall.protocols.decoder import (
    Payload,
    fit,
    guard,
    is_done,
    plain,
    present,
    read,
    read_arguments,
    read_error,
    read_json,
    read_mark,
    read_usage,
    terminate,
)


class Shape(msgspec.Struct):
    word: str | None = None
    any: Any = None


SHAPE = msgspec.json.Decoder(Shape)


class Colour(enum.Enum):
    RED = "red"


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    word: str | None = None
    long_name: str | None = Field(default=None, alias="longName")
    data: bytes | None = None


# ── At the border ───────────────────────────────────────────────────────────────────


def failing(error: Exception) -> Iterator[Text]:
    yield Text("before")
    raise error


def test_what_cannot_be_read_ends_as_a_fault_after_what_could_be() -> None:
    deltas = list(guard(failing(ProtocolError("it is broken"))))
    assert deltas == [Text("before"), Fault(FaultKind.PROTOCOL, "it is broken")]


def test_what_is_nested_beyond_the_stack_ends_as_a_fault() -> None:
    assert list(guard(failing(RecursionError("deep")))) == [
        Text("before"),
        Fault(FaultKind.PROTOCOL, "deep"),
    ]


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        list(guard(failing(ZeroDivisionError())))


def test_a_whole_answer_ends_with_one_terminator() -> None:
    ends = [Text("a"), Terminated()]
    assert list(terminate([Text("a")])) == ends
    assert list(terminate([Terminated(), Text("a")])) == ends


@pytest.mark.parametrize(
    ("payload", "mark"),
    [
        ("[DONE]", "[DONE]"),
        (b" [DONE]\r\n", "[DONE]"),
        ("", ""),
        (b" \n", ""),
        (b"null", ""),
        ("[done]", "[DONE]"),
        (b"[ Done ]", "[DONE]"),
        ('"[DONE]"', "[DONE]"),
        ("DONE", "[DONE]"),
        ("[DONE", None),
        ("[]", ""),
        (b"ping", ""),
        ("keep-alive", ""),
        ("error", None),
        ("it is done", None),
        ("[DONE]" + "." * 9, None),
        (b"\xff", None),
        ("{}", None),
        ('{"choices":[]}', None),
        ({}, None),
        (None, None),
    ],
)
def test_a_mark_is_told_from_json(payload: Payload, mark: str | None) -> None:
    assert read_mark(payload) == mark
    assert not isinstance(payload, str) or is_done(payload) is (mark == "[DONE]")


# ── Reading ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "payload",
    [
        b'{"word":"a"}',
        '{"word":"a","other":1}',
        {"word": "a"},
        MappingProxyType({"word": "a"}),
        ChainMap({"word": "a"}),
        SimpleNamespace(word="a"),
        Model(word="a"),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_a_payload_is_read_in_every_form(payload: Payload) -> None:
    assert read(payload, SHAPE) == Shape("a")


LENIENT = [
    ("half a surrogate pair", b'{"word":"a\\ud83d"}', "a\ud83d"),
    ("half a surrogate pair as it is", '{"word":"a\ud83d"}', "a\ud83d"),
    ("bytes that are no UTF-8", b'{"word":"a\xff"}', "a\ufffd"),
    ("a BOM", b'\xef\xbb\xbf{"word":"a"}', "a"),
    ("a raw control character", '{"word":"a\tb"}', "a\tb"),
    ("a number that JSON does not have", '{"word":"a","any":NaN}', "a"),
    ("a number beyond a double", '{"word":"a","any":1e999}', "a"),
]


@pytest.mark.parametrize(
    ("payload", "word"), [row[1:] for row in LENIENT], ids=[row[0] for row in LENIENT]
)
def test_what_servers_send_against_the_standard_is_read(payload: Payload, word: str) -> None:
    assert read(payload, SHAPE).word == word
    assert read_json(payload)["word"] == word


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"word":', "is no JSON: Expecting value"),
        (b"<html>", "is no JSON.*'<html>'"),
        ("x" * 10_000, r"is no JSON.*: '…'$"),
        ("x " * 10_000, r"is no JSON.*: '(x ){100}…'$"),
        ({"word": 1}, r"cannot be read: Expected `str \| null`, got `int` - at `\$.word`"),
        ('{"word":1}', r"at `\$.word`: \{'word': 1\}"),
        ([], "Expected `object`, got `array`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(payload: Payload, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        read(payload, SHAPE)


@pytest.mark.parametrize("payload", [b"[" * 100_000, '{"any":' + "[" * 100_000])
def test_depth_beyond_the_stack_is_left_to_the_guard(payload: bytes | str) -> None:
    with pytest.raises(RecursionError):
        read(payload, SHAPE)
    with pytest.raises(RecursionError):
        read_json(payload)


def test_a_preview_survives_any_depth() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(ProtocolError, match=r"\[\[\[\[\[\[\[...\]"):
        fit(deep, Shape)


def test_json_is_read_in_every_form() -> None:
    for payload in (b'{"a":[1]}', '{"a":[1]}', {"a": [1]}, SimpleNamespace(a=[1])):
        assert read_json(payload) == {"a": [1]}
    with pytest.raises(ProtocolError, match="is no JSON"):
        read_json("{")


# ── Parts that have no fixed shape ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "json_value"),
    [
        ({"a": [1, "b", None]}, {"a": [1, "b", None]}),
        (Model.model_validate({"word": "a", "extra": 1}), {"word": "a", "extra": 1}),
        ([Model(longName="a")], [{"longName": "a"}]),
        (Model(data=b"a"), {"data": "a"}),
        (SimpleNamespace(a=Model(word="b")), {"a": {"word": "b"}}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        (b"ab", "YWI="),
        (None, None),
    ],
)
def test_objects_become_what_they_stand_for(value: Any, json_value: Any) -> None:
    assert plain(value) == json_value


def test_a_plain_value_is_a_copy() -> None:
    value: dict[str, list[int]] = {"a": []}
    plain(value)["a"].append(1)
    assert value == {"a": []}


@pytest.mark.parametrize("value", [object(), {1j: 2}])
def test_what_is_no_json_value_is_an_error(value: Any) -> None:
    with pytest.raises(ProtocolError, match="is no JSON value"):
        plain(value)


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        (None, None),
        ("", ""),
        ('{"a":', '{"a":'),
        ({"a": 1}, {"a": 1}),
        ([1, "é"], json.dumps([1, "é"])),
        (5, "5"),
        (False, "false"),
        (float("nan"), "NaN"),
    ],
)
def test_arguments_are_text_or_an_object(arguments: Any, read_as: Any) -> None:
    assert read_arguments(arguments) == read_as


@pytest.mark.parametrize(
    ("error", "message", "native"),
    [
        ({"message": "broken", "type": "x"}, "broken", {"message": "broken", "type": "x"}),
        ({"type": "overloaded"}, "overloaded", {"type": "overloaded"}),
        ({"code": 502}, "502", {"code": 502}),
        ({"other": 1}, "{'other': 1}", {"other": 1}),
        (SimpleNamespace(message="broken"), "broken", {"message": "broken"}),
        ("broken", "broken", {}),
        (500, "500", {}),
    ],
)
def test_an_error_may_have_any_shape(error: Any, message: str, *, native: dict[str, Any]) -> None:
    assert read_error(error) == Fault(FaultKind.UPSTREAM_ERROR, message, native)


@pytest.mark.parametrize(
    ("usage", "deltas"),
    [
        ({"in": 1, "out": 2, "more": 3}, [Usage(1, 2, {"in": 1, "out": 2, "more": 3})]),
        (SimpleNamespace(out=2), [Usage(None, 2, {"out": 2})]),
        ({"in": 1.0, "out": 2.5}, [Usage(1, None, {"in": 1.0, "out": 2.5})]),
        ({"in": "1", "out": []}, [Usage(None, None, {"in": "1", "out": []})]),
        ({"in": -1, "out": 0}, [Usage(None, 0, {"in": -1, "out": 0})]),
        ({"in": True, "out": 10**400}, [Usage(None, None, {"in": True, "out": 10**400})]),
        ({"in": 2**53, "out": 2**53 + 1}, [Usage(2**53, None, {"in": 2**53, "out": 2**53 + 1})]),
        (None, []),
        (5, []),
    ],
)
def test_usage_is_read_by_the_names_of_its_protocol(usage: Any, deltas: list[Usage]) -> None:
    assert list(read_usage(usage, input_tokens="in", output_tokens="out")) == deltas


def test_only_fields_with_a_value_are_present() -> None:
    assert present({"a": None, "b": 0, "c": ""}) == {"b": 0, "c": ""}


@pytest.mark.parametrize("form", [str, str.encode])
def test_what_is_shown_of_a_long_payload_ends_between_two_words(form: Any) -> None:
    """Half of a secret would not be known for one by whoever hides secrets."""
    payload = "x " * 95 + "sk-abcdefghijklmnop" + " y" * 50
    with pytest.raises(ProtocolError) as raised:
        read_json(form(payload))
    assert "x x …" in str(raised.value)
    assert "sk-" not in str(raised.value)
