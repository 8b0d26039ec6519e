from typing import Any

import msgspec
import pytest

from wholecall.errors import UnreadableRequest
from wholecall.messages import Message, Native, Request, Role
from wholecall.protocols.request_fields import (
    complete,
    fit,
    keep_rest,
    merge,
    natives_of,
    read_id,
    read_kind,
    refuse,
    refuse_role,
    rest_of,
)


class Inner(msgspec.Struct):
    name: str


class Shape(msgspec.Struct):
    model: str
    inner: list[Inner] = []


@pytest.mark.parametrize(
    ("value", "at", "param", "message"),
    [
        ({"model": 1}, "", "model", "model: Expected `str`, got `int`"),
        ({}, "", "model", "model: Object missing required field `model`"),
        ([], "", "", "the body: Expected `object`, got `array`"),
        (1, "tools[3]", "tools[3]", "tools[3]: Expected `object`, got `int`"),
        (
            {"model": "m", "inner": [{"name": "a"}, {}]},
            "messages[0]",
            "messages[0].inner[1].name",
            "messages[0].inner[1].name: Object missing required field `name`",
        ),
    ],
)
def test_what_does_not_fit_is_named(value: Any, at: str, *, param: str, message: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        fit(value, Shape, at=at)
    assert (caught.value.param, str(caught.value)) == (param, message)


def test_half_of_a_character_is_named() -> None:
    with pytest.raises(UnreadableRequest, match="surrogates") as caught:
        fit("\ud83d", Shape, at="messages[0]")
    assert caught.value.param == "messages[0]"


def test_what_fits_is_read() -> None:
    assert fit({"model": "m", "new": 1}, Shape) == Shape("m")


def test_a_refusal_names_its_field() -> None:
    assert refuse("stop", "no").param == "stop"
    refused = refuse_role("messages[1]", "king", known=("user", "tool"))
    assert (refused.param, str(refused)) == (
        "messages[1].role",
        "messages[1].role: 'king' is none of 'user', 'tool'",
    )


def test_an_id_is_text_however_it_came() -> None:
    assert [read_id(id) for id in ("a", 7, None)] == ["a", "7", ""]


def test_the_rest_is_kept_if_there_is_any() -> None:
    left: dict[str, Any] = {"tools": [], "text": {}, "format": None}
    assert keep_rest("p", {"a": 1}, read=["a"], more=left) is None
    kept = keep_rest("p", {"a": 1, "b": 2}, read=["a"], more={**left, "cap": 0})
    assert kept == Native("p", {"b": 2, "cap": 0})


def test_only_the_own_protocol_sees_the_rest_and_the_natives() -> None:
    request = Request(model="m", messages=(), rest=Native("p", {"a": 1}))
    assert rest_of(request, "p") == {"a": 1}
    assert rest_of(request, "q") == {}
    message = Message(Role.USER, (), Native("p", ({"b": 1},)))
    assert natives_of(message, "p") == ({"b": 1},)
    assert natives_of(message, "q") is None
    assert natives_of(Message(Role.USER, ()), "p") is None


@pytest.mark.parametrize(
    ("rest", "body", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        (
            {"a": {"b": 1, "c": {"d": 1}}},
            {"a": {"c": {"e": 2}}},
            {"a": {"b": 1, "c": {"d": 1, "e": 2}}},
        ),
        ({"a": {"b": 1}}, {"a": [2]}, {"a": [2]}),
        ({"a": [1]}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    ],
)
def test_objects_are_merged_and_of_two_values_ours_counts(
    rest: Any, body: Any, *, merged: Any
) -> None:
    assert merge(rest, body) == merged


def test_a_complete_body_has_no_empty_fields_and_shares_nothing() -> None:
    inner: dict[str, Any] = {"x": []}
    body = complete({"a": inner, "b": None}, {"c": inner})
    assert body == {"a": {"x": []}, "c": {"x": []}}
    assert body["a"] is not inner
    assert body["a"]["x"] is not inner["x"]
    assert body["c"]["x"] is not inner["x"]


@pytest.mark.parametrize(
    ("part", "kind"), [({"type": "text"}, "text"), ({"type": None}, ""), ({}, "")]
)
def test_a_part_says_what_it_is(part: dict[str, Any], kind: str) -> None:
    assert read_kind(part, "messages[0]") == kind


def test_a_part_that_says_it_in_no_word_is_named() -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read_kind({"type": ["text"]}, "messages[0]")
    assert caught.value.param == "messages[0].type"
