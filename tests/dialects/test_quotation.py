"""Whether a place in a text is quoted."""

from __future__ import annotations

import pytest

from wholecall.dialects.quotation import Quotation

# what holds, the text before a place, whether the place is quoted
ROWS: list[tuple[str, str, bool]] = [
    ("nothing", "", False),
    ("a word", "Hello ", False),
    ("a fence", "So:\n```json\n", True),
    ("a fence that is closed", "```\nx\n```\n", False),
    ("a longer fence is not closed by a shorter one", "````\n```\n", True),
    ("a fence is not closed by words behind its mark", "```\nx\n``` y\n", True),
    ("a fence of tildes", "~~~\n", True),
    ("a fence of tildes is not closed by backticks", "~~~\n```\n", True),
    ("a fence in a list", "- So:\n  ```\n  ", True),
    ("a fence behind the mark of a list", "1. ```\n", True),
    ("a fence in a block quote", "> ```\n> x\n", True),
    ("three backticks in a line are a code span", "a ``` b\n", False),
    ("a comment", "<!-- the page says\n", True),
    ("a comment that is closed", "<!-- x -->\n", False),
    ("a comment in a fence is none", "```\n<!--\n```\n", False),
    ("CDATA", "<![CDATA[\n", True),
    ("preformatted", "<pre>\n", True),
    ("preformatted, with attributes", '<PRE class="x">\n', True),
    ("preformatted, closed", "<pre>x</PRE>\n", False),
    ("code behind another tag", "<p><code>", True),
    ("a tag that is spoken of", "Use the <pre> tag\n", False),
    ("a tag far from the beginning of its line", " " * 200 + "<pre>\n", False),
    ("a tag in a code span", "`<!--` begins it\n", False),
    ("verbatim", "\\begin{verbatim}\n", True),
    ("verbatim, closed", "\\begin{verbatim}x\\end{verbatim}\n", False),
    ("a code span", "It says `x ", True),
    ("a code span, closed", "It says `x` ", False),
    ("a code span with another run in it", "``a ` b", True),
    ("a code span ends with its line", "It says `x\n", False),
    ("a block quote", "> ", True),
    ("a block quote in a list", "- > ", True),
    ("a sign", "a > ", False),
    ("a straight quotation mark", 'It says "', True),
    ("one at the end of a word", 'look for "cats"', False),
    ("one before a blank", 'It says " ', True),
    ("an apostrophe", "It's", False),
    ("typographic marks", "It says “now ", True),
    ("typographic marks, closed", "It says “now” ", False),
    ("over a line end", "“\n", True),
    ("a backtick on a line of its own", "So:\n`\n", True),
    ("two backticks on a line of their own", "``\n", True),
    ("two backticks on a line of their own, closed", "``\nx\n``\n", False),
    ("a thought in tags", "<scratchpad>\nIt says ", True),
    ("a thought in tags, closed", "<scratchpad>\nx\n</scratchpad>\n", False),
    ("not over a paragraph", "“now\n\n", False),
    ("German marks", "„so ", True),
    ("German marks, closed", "„so“ ", False),
    ("corner brackets", "他说「", True),
    ("marks in marks", "«a “b” ", True),
    ("a closer without an opener", "a” b ", False),
    ("very many of them", "“" * 40 + "”" * 16, False),
    ("a comment behind slashes", "// ", True),
    ("a comment behind slashes ends with its line", "// x\n", False),
    ("a comment behind a hash", "  # ", True),
    ("slashes in an address", "See https://example.org ", False),
    ("three marks alone on a line", 'It says\n"""\n', True),
    ("three marks, closed", 'It says\n"""\nx\n"""\n', False),
    ("a mark alone on a line", "'\nx\n", True),
    ("one in a fence is none", '```\n"\n```\n', False),
    ("another one does not close it", '"""\n"\n', True),
    ("thoughts", "<think>\nHm.\n", True),
    ("thoughts, closed", "<think>\nHm.\n</think>\n", False),
]


@pytest.mark.parametrize(
    ("text", "quoted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
@pytest.mark.parametrize("size", [1, 3, 9999])
def test_a_place(text: str, size: int, *, quoted: bool) -> None:
    quotation = Quotation()
    for at in range(0, len(text), size):
        quotation.add(text[at : at + size])
    assert quotation.holds() is quoted


def test_a_line_end_ends_the_marks_of_a_line() -> None:
    quotation = Quotation()
    quotation.add("> x")
    assert (quotation.holds(), quotation.holds(new_line=True)) == (True, False)


def test_a_line_end_begins_and_ends_a_quotation_after_a_mark_alone() -> None:
    quotation = Quotation()
    quotation.add('"""')
    assert quotation.holds(new_line=True)
    quotation.add('\nx\n"""')
    assert not quotation.holds(new_line=True)


def test_to_go_back() -> None:
    quotation = Quotation()
    quotation.add("So:\n")
    state = quotation.save()
    quotation.add("```\n")
    assert quotation.holds()
    quotation.restore(state)
    assert not quotation.holds()
    assert quotation.begins_line
    assert quotation.tail == "\nSo:\n"


@pytest.mark.parametrize("filler", ["word\n", "word ", "word"])
def test_a_long_text_is_read_as_it_comes(filler: str) -> None:
    quotation = Quotation()
    quotation.add("<!--\n")
    for _ in range(10_000):
        quotation.add(filler)
    assert quotation.holds()
    quotation.add("-->\n")
    assert not quotation.holds()
    assert len("".join(quotation._pending)) < 20_000


# what holds, the text before a place, whether words stand before it in its line
WORDS = [("So, ", True), ("* ", False), ("// ", False), ("[^1]: ", False), ("2. It ", False)]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words_before_a_place(text: str, *, words: bool) -> None:
    quotation = Quotation()
    quotation.add(text)
    assert quotation.follows_words is words
