"""Regular expressions as data."""

from __future__ import annotations

import pytest

from wholecall.dialects.learn.response_template import (
    Alternative,
    Blanks,
    Gap,
    Mark,
    TextEdge,
    read_pattern,
)
from wholecall.errors import UnusableDialect


def say(way: Alternative) -> str:
    """`mark`, `_` for blanks, `{name}` for a place, `^` for an edge."""
    said = []
    for part in way:
        match part:
            case Mark(text=text):
                said.append(text)
            case Gap(name=name):
                said.append(f"{{{name}}}")
            case Blanks():
                said.append("_")
            case TextEdge():
                said.append("^")
    return "·".join(said)


# what holds, the pattern, its ways
ROWS = [
    ("text", "abc", ["abc"]),
    ("escaped marks", r"<\|call\|>\.\{\\", ["<|call|>.{\\"]),
    ("control characters", r"a\n\t\rb", ["a\n\t\rb"]),
    ("white space", r"a\s*\s+b", ["a·_·b"]),
    ("a newline that may be missing", "a\\n?b ?", ["a·_·b·_"]),
    ("a name", r"<f=(?P<name>\w+)>", ["<f=·{name}·>"]),
    ("a name in a class", r"<f=(?P<name>[^\n>]+)>", ["<f=·{name}·>"]),
    ("a class with a bracket", r"(?P<name>[^\]]+)", ["{name}"]),
    ("a lazy name", r"(?P<name>\S+?)<", ["{name}·<"]),
    ("a lazy value", r"(?P<value>.*?)</v>", ["{value}·</v>"]),
    ("what is read over", r"a.*?b[^<]*c", ["a·{}·b·{}·c"]),
    ("edges", r"^a$|\Z", ["^·a·^", "^"]),
    ("alternatives", r"a|b", ["a", "b"]),
    ("a group of alternatives", r"(?:^|<t>\s*)x", ["^·x", "<t>·_·x"]),
    ("a group that may be missing", r"(?:ab)?c", ["abc", "c"]),
    ("a character that may be missing", r"ab?", ["ab", "a"]),
    ("groups in groups", r"(?:a(?:b|c))d", ["abd", "acd"]),
    ("nothing", "", [""]),
]


@pytest.mark.parametrize(("pattern", "ways"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_what_a_pattern_says(pattern: str, ways: list[str]) -> None:
    assert [say(way) for way in read_pattern(pattern)] == ways


REFUSED = [
    (r"a(?=b)", r"'\(\?=b\)' in 'a\(\?=b\)' cannot be translated"),
    (r"<(?P<k>\w+)></\1>", r"'.*1>' in"),
    (r"a{3}", r"'\{3\}' in"),
    (r"(a)", r"'\(a\)' in"),
    (r"\d+", "cannot be translated"),
    (r"x*", r"'x\*' in"),
    (r"(?P<name>a|b)", "cannot be translated"),
    (r"(?P<name>\w+)?", "cannot be translated"),
    (r"(?:ab)*", "cannot be translated"),
    ("(?:a", "is not closed"),
    ("a)b", "closes nothing"),
    ("(?:" * 9 + ")" * 9, "too many groups in each other"),
    ("(?:a|b|c|d)(?:a|b|c|d)(?:a|b)", "too many alternatives"),
    ("\\", "cannot be translated"),
    ("x*" + "y" * 100, "y…' cannot be translated"),
]


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_what_says_more_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(UnusableDialect, match=why):
        read_pattern(pattern)
