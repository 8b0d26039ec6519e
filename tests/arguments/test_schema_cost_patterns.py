"""How much a regular expression may cost, told by looking at it."""

import pytest

from wholecall.arguments.schema_cost import STATES, Pattern, find_tame, measure_pattern

# pattern, positions, how many of them are loose
PATTERNS = [
    ("", 0, 0),
    ("^$", 0, 0),
    ("a", 1, 1),
    ("^abc$", 3, 0),
    (r"^\d\.\bx\B$", 3, 0),
    (r"^[a\]b-]x[", 3, 0),
    ("^a{3}b{2,4}cd{0}$", 9, 2),
    ("^a*b", 2, 1),
    ("^a+b", 2, 1),
    ("^a?b", 2, 1),
    ("^(ab){3}c", 7, 0),
    ("^x(ab)*c", 4, 3),
    ("^x(?:ab)+c", 4, 3),
    ("^x(?P<name>ab){1,3}c", 8, 7),
    ("^x(?<n>a(?i:b))?", 3, 2),
    ("^(?=a)(?!b)(?<=c)(?<!d)e", 5, 0),
    ("^x(ab|cd)e", 6, 5),
    ("^a|b", 2, 2),
    (r"^\p{L}b", 68, 0),
    ("^a)b{2}", 3, 0),
    ("^(a", 1, 0),
    ("^a{9999999}", 10, 0),
    ("^{2}", 0, 0),
    (r"[ab]*a[ab]{50}c", 53, 53),
]


@pytest.mark.parametrize(("pattern", "positions", "loose"), PATTERNS)
def test_the_size_of_a_pattern(pattern: str, positions: int, *, loose: int) -> None:
    assert measure_pattern(pattern) == Pattern(positions, loose)


HONEST = [
    r"\S",
    r"^\S+$",
    r"^[^\s@]+@[^\s@]+\.[^\s@]{2,}$",
    r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z?$",
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    r"^.{1,500}$",
    r"^[a-z][a-z0-9-]{0,61}[a-z0-9]$",
    r"^https?://",
    r"^(?:GET|POST|PUT)$",
    r"^#[0-9a-fA-F]{6}$",
    r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$",
]


def test_honest_patterns_are_tame() -> None:
    assert find_tame(HONEST) == frozenset(HONEST)


WILD = [r"a[ab]{50}c", r"^[ab]{0,99}a[ab]{99}c$", r"^(.*a){20}$"]


def test_patterns_that_remember_much_are_not() -> None:
    assert find_tame([*WILD, *HONEST]) == frozenset(HONEST)


def test_so_many_states_are_built() -> None:
    alone, together = "x" * 14, ["x" * 13, "y" * 13, "z"]

    assert measure_pattern(alone).states == STATES
    assert find_tame([alone]) == {alone}
    assert find_tame(["x" * 15]) == frozenset()
    assert find_tame(together) == {"z", "x" * 13}
    assert find_tame(["a", "a"]) == {"a"}
