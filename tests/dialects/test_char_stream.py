"""Text in pieces: marks, bookmarks, ways back."""

from __future__ import annotations

import pytest

from wholecall.dialects.char_stream import MOST_BLANKS, CharStream, Markers, Steps


def read(source: CharStream, count: int) -> None:
    source.at += count


def test_a_longer_mark_is_waited_for() -> None:
    marks = Markers(["```", "```json"])
    assert marks.search("a ```js", 0, ended=False) is None
    found = marks.search("a ```js", 0, ended=True)
    assert found is not None
    assert found.group() == "```"
    assert "```json" in marks
    assert marks.safe_end("a ```js", 0) == 2


def test_no_marks_are_found_nowhere() -> None:
    marks = Markers([])
    assert marks.search("abc", 0, ended=True) is None
    assert marks.safe_end("abc", 0) == 3


def test_a_bookmark_remembers_over_pieces() -> None:
    source = CharStream()
    source.feed("ab")
    read(source, 1)
    place = source.bookmark()
    read(source, 1)
    source.feed("cd")
    read(source, 2)
    source.feed("ef")
    inner = source.bookmark()
    read(source, 1)
    assert source.since(place) == "bcde"
    assert source.since(inner) == "e"
    source.forget()
    source.rewind(place)
    assert (source.text, source.at, source.place) == ("bcdef", 0, 1)
    read(source, 2)
    assert source.since(place) == "bc"
    source.rewind(place)
    assert source.place == 1
    source.forget()


def test_a_flood_of_blanks_is_not_looked_over() -> None:
    source = CharStream()
    source.feed(" " * (MOST_BLANKS + 5) + "{")
    steps = source.sees_ahead(Markers(["{"]))
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == "{"


def test_more_blanks_than_anyone_writes_are_not_looked_over() -> None:
    source = CharStream()
    source.feed("x" + " " * (MOST_BLANKS + 5))
    looking = source.sees_ahead(Markers(["<end>"]), past=1)
    next(looking)  # it waits once for more
    source.feed(" ")
    with pytest.raises(StopIteration) as found:
        next(looking)
    assert found.value.value == ""


# what holds, the text, how far is looked, what is looked over, how far from here the mark ends
AHEAD = [
    ("a mark", "ab-->c", 9, 0, 5),
    ("nothing is found before it", "-->b-->", 9, 3, 7),
    ("a mark that ends too far away", "ab-->", 4, 0, 0),
    ("no mark", "abc", 9, 0, 0),
    ("half a mark", "ab--", 9, 0, 0),
]


@pytest.mark.parametrize("row", AHEAD, ids=[row[0] for row in AHEAD])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_end_of_a_mark_is_seen_from_afar(
    row: tuple[str, str, int, int, int], size: int
) -> None:
    _, text, farthest, past, end = row
    source = CharStream()
    ends: list[int] = []

    def look() -> Steps[None]:
        ends.append((yield from source.ends_ahead("-->", farthest, past=past)))

    looking = look()
    for at in range(0, len(text), size):
        source.feed(text[at : at + size])
        next(looking, None)
    source.ended = True
    next(looking, None)
    assert (ends, source.at) == ([end], 0)


@pytest.mark.parametrize(
    ("text", "place"), [("  </a>x", 6), ("</a>", 4), ("  text", 0), ("  </", 0), ("  ", 0)]
)
def test_a_mark_ahead_is_read_with_the_blanks_before_it_or_not_at_all(
    text: str, place: int
) -> None:
    source = CharStream()
    source.feed(text)
    source.ended = True
    with pytest.raises(StopIteration):
        next(source.accept_ahead(Markers(["</a>"])))
    assert source.place == place
