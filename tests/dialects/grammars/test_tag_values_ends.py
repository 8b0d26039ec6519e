"""How a raw value ends."""

from __future__ import annotations

import pytest

from wholecall.dialects.char_stream import ignore
from wholecall.dialects.grammars.tag_values import ValueEnding, came_twice, repeats_opening

# what holds, the value, whether it ends with a closing tag that is not written as one
ROWS = [
    ("words", "so it is", False),
    ("another tag", "a</b>", False),
    ("one letter", "a</v>", False),
    ("the name of a usual one", "a</arg>", True),
    ("the tag without its bracket", "a</value", True),
    ("without its slash", "a<value>", True),
    ("without its beginning", "a /value>", True),
    ("with blanks behind it", "a</ value >\n ", True),
    ("in other letters", "a</VALUE>", True),
    ("with a part of its name", "a</valu>", True),
    ("with more than its name", "a</my_values>", True),
    ("misspelt", "a</parameetr>", True),
    ("far before the end", "a</value >" + " b" * 40, False),
    ("an empty tag", "a</>", False),
    ("the beginning of the tag", "a\n</va", True),
    ("the beginning of any tag", "a\n</", False),
    ("the beginning of another tag", "a\n</b", False),
    ("the end of the tag", "alue>", True),
    ("the end of the tag behind another one", "<b>alue>", True),
    ("the end of another tag", "<blue>", False),
    ("less than a part of it", "ue>", False),
]


@pytest.mark.parametrize(("says", "text", "torn"), ROWS, ids=[row[0] for row in ROWS])
def test_a_closing_tag_is_known_however_it_is_written(says: str, text: str, *, torn: bool) -> None:
    taken: list[str] = []
    ending = ValueEnding(taken.append)
    for letter in text:
        ending.put(letter)
    assert ending.is_torn(("</value>",)) is torn, says
    assert "".join(taken) == text


def test_a_value_that_held_its_end_or_needs_it_is_torn() -> None:
    assert ValueEnding(ignore, closed=True).is_torn(())
    ending = ValueEnding(ignore)
    assert not ending.is_torn(())
    ending.leave()
    assert ending.is_torn(())


# what holds, the value, the name of the closing tag that stands before the right one
REPEATED = [
    ("words", "so it is", ""),
    ("another tag", "a</b>", ""),
    ("a tag with another meaning", "a</values>", ""),
    ("a part of the name", "a</val>", ""),
    ("the name with other marks", "a</va:lue>", "va:lue"),
    ("a letter left out", "a</vlue>\n", "vlue"),
    ("a letter twice", "a</vallue", "vallue"),
    ("without its beginning", "a/value>", "value"),
    ("nothing but its beginning", "a\n</val", "</val"),
    ("a whole one", "<value>a</value>", "value"),
]


@pytest.mark.parametrize(("says", "text", "name"), REPEATED)
def test_a_closing_tag_may_stand_before_the_right_one(says: str, text: str, *, name: str) -> None:
    ending = ValueEnding(ignore)
    ending.put(text)
    assert ending.repeats(("</value>",)) == name, says


# what holds, the value, the opening tag, what that ends with, whether it begins once more
AGAIN = [
    ("words", "so it is", "<value=key>", ">", False),
    ("the last part of the tag", "ue=key>\na", "<value=key>", ">", True),
    ("all of it", "<value=key>a", "<value=key>", ">", True),
    ("a mark", "> a", "<value=key>", ">", False),
    ("another tag", "<b>a", "<value=key>", ">", False),
    ("a token", "<|sep|>a", '<|open|>value key="b"<|sep|>', "<|sep|>", True),
    ("a token and more", '"<|sep|>a', '<|open|>value key="b"<|sep|>', "<|sep|>", True),
]


@pytest.mark.parametrize(("text", "opening", "end", "again"), [row[1:] for row in AGAIN])
def test_an_opening_tag_may_be_repeated(text: str, opening: str, *, end: str, again: bool) -> None:
    assert repeats_opening(text, opening, end=end) is again


# what holds, the text, whether a piece of it came twice
TWICE = [
    ("words", "a b", False),
    ("a closing tag", "a</value>b", False),
    ("a closing tag alone", "</value></value>", False),
    ("the same on both sides", "a b</value>a b</value>", True),
    ("the same in lines of their own", "\na\n</value>\na\n</value>", True),
    ("the same behind something else", "b</value>a</value>a", True),
]


@pytest.mark.parametrize(("text", "twice"), [row[1:] for row in TWICE], ids=[r[0] for r in TWICE])
def test_a_piece_may_come_twice(text: str, *, twice: bool) -> None:
    assert came_twice(text, ("</param>", "</value>")) is twice


def test_the_tag_of_a_short_name_has_no_slips() -> None:
    ending = ValueEnding(ignore)
    ending.put("a</v>")
    assert ending.repeats(("</va>",)) == ""


# what holds, what stands before the tag, whether its line ends, whether it may be a parameter
TAGS = [
    ("alone in its line", "a\n", True, True),
    ("at the beginning", "", True, True),
    ("with blanks before it", "a\n \t", True, True),
    ("behind words", "a", True, False),
    ("before words", "a\n", False, False),
]


@pytest.mark.parametrize(("says", "before", "ends_line", "meant"), TAGS)
def test_a_tag_without_a_name_may_begin_another_parameter(
    says: str, before: str, *, ends_line: bool, meant: bool
) -> None:
    ending = ValueEnding(ignore)
    ending.put(before)
    ending.enter(ends_line=ends_line)
    assert (ending.inside, ending.is_another) == (1, meant), says
    ending.enter(ends_line=False)
    ending.leave()
    assert ending.is_another is meant
    ending.leave()
    assert (ending.inside, ending.is_another) == (0, False)
