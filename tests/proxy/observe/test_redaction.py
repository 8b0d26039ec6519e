"""Streams without what their lines have in common."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.proxy.observe import redaction
from wholecall.proxy.observe.redaction import SHORTEST_LINE, Redactor, shrink
from wholecall.upstreams.secrets import FORMS, WORDS

SECRETS = (
    "sk-abcdefghijklmnop",
    "Bearer abcdefghijklm",
    "token=abcdefghijkl",
    "https://ada:secretword@example.org",
    "AKIAABCDEFGHIJKLMNOP",
    "pa\u017fsword: abcdefghijkl",
)


def stream(pieces: list[str], *, field: str = "content", end: str = "null") -> str:
    lines = [
        f'data: {{"id": "chatcmpl-1", "model": "m", "choices": [{{"delta": {{"{field}": '
        f'{json.dumps(piece, ensure_ascii=False)}}}, "finish_reason": {end}}}]}}\n\n'
        for piece in pieces
    ]
    return "".join(lines)


PIECES = [f"word {number}" for number in range(100)]


def test_a_stream_becomes_small() -> None:
    text = stream(PIECES)
    assert len(shrink(text)) < len(text) / 5
    assert all(piece in shrink(text) for piece in PIECES)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("place", [0, 49, 50, 51, 99])
def test_a_secret_in_it_is_found(secret: str, place: int) -> None:
    pieces = [*PIECES[:place], f"it is {secret} indeed", *PIECES[place:]]
    text = stream(pieces)
    assert redaction._has_form(shrink(text))
    assert "abcdefghijkl" not in Redactor().hide(text).lower()


@pytest.mark.parametrize("secret", SECRETS[:2])
def test_a_secret_that_all_lines_have_is_found(secret: str) -> None:
    assert redaction._has_form(shrink(stream(PIECES, end=f'"{secret}"')))
    assert redaction._has_form(shrink(stream(PIECES).replace("chatcmpl-1", secret)))


@pytest.mark.parametrize("field", [*WORDS, "api_key", "PASSWORD", "x-secret"])
def test_values_of_a_field_that_is_called_a_secret_are_found(field: str) -> None:
    """They begin in what the lines have in common, and go on in what they have not."""
    text = stream([f"longvalue{number}" for number in range(100)], field=field)
    assert redaction._has_form(shrink(text))
    assert "longvalue" not in Redactor().hide(text)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("place", [1, 20, 99])
def test_one_value_that_is_long_enough_is_found(word: str, place: int) -> None:
    """The first line, which always stays whole, says nothing of it."""
    pieces = [str(number) for number in range(100)]
    pieces[place] = "longvalue"
    text = stream(pieces, field=word)
    assert redaction._has_form(text)
    assert redaction._has_form(shrink(text))


@pytest.mark.parametrize("word", WORDS)
def test_fields_whose_names_differ_and_whose_values_do_not_are_found(word: str) -> None:
    lines = [f'data: {{"some": "thing", "of_{n}_{word}": "longvalue1"}}\n\n' for n in range(100)]
    assert redaction._has_form(shrink("".join(lines)))


@pytest.mark.parametrize(
    "text", ["", "short", "x" * SHORTEST_LINE, "a\n" * SHORTEST_LINE, "é\n" * SHORTEST_LINE]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert shrink(text) == text or set(shrink(text)) <= set(text) | {"\n"}


ANCHORS = ("sk-", "wc_", "AKIA", "bearer ", "basic\t", *WORDS, "://", "@", ":", "=", '"')
FRAGMENTS = st.sampled_from((*ANCHORS, "abcdefgh", "12345678", " ", "x", "\n", "'", "}", ",", "é"))
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)


@given(TEXTS)
def test_a_form_is_found_exactly_where_one_would_be_hidden(text: str) -> None:
    hidden = text
    for form, instead in FORMS:
        hidden = form.sub(instead, hidden)
    assert redaction._has_form(text) == (hidden != text)


@given(st.lists(TEXTS, min_size=2, max_size=4), TEXTS, TEXTS)
def test_shrinking_changes_nothing_about_it(  # noqa: PLR0917 - hypothesis names them by place
    pieces: list[str], head: str, rest: str
) -> None:
    lines = [f'data: {{"{head}": "{pieces[n % len(pieces)]}", "{rest}": 1}}\n' for n in range(99)]
    text = "".join(lines).ljust(SHORTEST_LINE)
    assert redaction._has_form(shrink(text)) == redaction._has_form(text)
