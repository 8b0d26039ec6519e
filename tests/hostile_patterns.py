"""Regular expressions that explode where matching means backtracking, or remembering."""

from __future__ import annotations

import random
from functools import partial

from hostile import FITS, LIMIT, REFUSED, STRING, UNFIT, Row, items, of

# pattern, a text that it almost matches, verdict
PATTERNS: list[tuple[str, str, str]] = [
    (r"^(a+)+$", "a!", UNFIT),
    (r"^(a*)*$", "a!", UNFIT),
    (r"^(a|a)*$", "a!", UNFIT),
    (r"^(a|aa)+$", "a!", UNFIT),
    (r"^(a|a?)+$", "a!", UNFIT),
    (r"^([a-zA-Z]+)*$", "a!", UNFIT),
    (r"^(.*a){20}$", "a!", LIMIT),
    (r"^(\w+\s?)*$", "a!", UNFIT),
    (r"^(\d+)+x$", "1", UNFIT),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a", UNFIT),
    (r"^(x+x+)+y$", "x", UNFIT),
    (r"^((ab)*)*c$", "ab", UNFIT),
    (r"^(a+b?)+$", "a!", UNFIT),
    (r"^(?:a+){2,}$", "a!", UNFIT),
    (r"^([^@]+)+@([^@]+)+$", "a", UNFIT),
    (r"^([a-zA-Z0-9._-]+)+@([a-z]+\.)+[a-z]{2,4}$", "a", UNFIT),
    (r"^(https?://)?([\da-z.-]+)\.([a-z.]{2,6})([/\w .-]*)*/?$", "a", LIMIT),
    (r"^\s+|\s+$|^$", " x", FITS),
    (r"(.*)*!$", "a", UNFIT),
    (r"^(0|[1-9]\d*)*\.$", "1", UNFIT),
    (r"<(\w+)(\s+\w+=\"[^\"]*\")*\s*/?>$", '<a b="', UNFIT),
    (r"^(([^()]*)|(\([^()]*\)))*$", "((", UNFIT),
    (r"^.*(.*)*.*;$", "a", UNFIT),
    (r"^[ab]*a[ab]{200}c$", "ab", LIMIT),
    (r"^(a?){500}a{500}$", "a", LIMIT),
    (r"(.{1,64}){1,64}x", "a", REFUSED),
    (r"^(\w{1,200}){1,200}$", "a!", REFUSED),
    (r"a{100000}", "a", REFUSED),
    (r"^(?=(a+))\1b$", "a", REFUSED),
    (r"^(a+)\1+$", "a!", REFUSED),
    (r"^(?<!a)(a+)+$", "a!", REFUSED),
    (r"^(?!.*(a+)+b).*$", "a", REFUSED),
]


def lengthen(text: str) -> str:
    return text[0] * 50_000 + text[1:]


def shuffle(letters: str, length: int) -> str:
    """A text in which every place needs a state of its own."""
    return "".join(random.Random(1).choices(letters, k=length))  # noqa: S311 - a text to read


REMEMBERS = r"[ab]*a[ab]{400}c"

ROWS: list[Row] = [
    *(
        Row(f"pattern {pattern}", of({"pattern": pattern}), partial(lengthen, text), verdict)
        for pattern, text, verdict in PATTERNS
    ),
    Row(
        "a pattern that remembers, a long text",
        of({"pattern": REMEMBERS}),
        lambda: shuffle("ab", 1_000_000),
        LIMIT,
    ),
    Row(
        "a pattern that remembers, a short text",
        of({"pattern": REMEMBERS}),
        lambda: shuffle("ab", 200),
        UNFIT,
    ),
    Row(
        "a pattern that remembers behind a bounded loop",
        of({"pattern": r"^[ab]{0,900}a[ab]{900}c$"}),
        lambda: shuffle("ab", 100_000),
        LIMIT,
    ),
    Row(
        "a pattern that remembers, many texts",
        items({"pattern": REMEMBERS}),
        lambda: [shuffle("ab", 100)] * 10_000,
        LIMIT,
    ),
    Row(
        "a pattern that remembers, written out",
        of({"pattern": "a" + "[ab]" * 13}),
        lambda: shuffle("ab", 500_000),
        FITS,
    ),
    Row(
        "many patterns that remember a little",
        of({"allOf": [{"pattern": f"[ab]*a[ab]{{11}}{n}"} for n in range(100)]}),
        lambda: shuffle("ab", 50_000),
        LIMIT,
    ),
    Row(
        "a pattern of loops in loops",
        of({"pattern": r"(\w{0,40}){0,40}x"}),
        lambda: shuffle("abc", 1000),
        LIMIT,
    ),
    Row(
        "a pattern that hardly remembers",
        of({"pattern": "[ab]*a" + "[ab]" * 12 + "c"}),
        lambda: shuffle("ab", 500_000),
        LIMIT,
    ),
    Row(
        "a plain pattern, the longest text",
        of({"pattern": r"\S"}),
        lambda: " " * 4_000_000,
        UNFIT,
    ),
    Row(
        "names by a pattern that remembers",
        of({"propertyNames": {"pattern": REMEMBERS}}),
        lambda: {shuffle("ab", 100_000): 1},
        LIMIT,
    ),
    Row(
        "names by many patterns",
        of({"patternProperties": {f"{n}.*b": {} for n in range(1000)}, "maxProperties": 1}),
        lambda: {f"k{n}": 1 for n in range(2000)},
        REFUSED,
    ),
    Row(
        "names by some patterns",
        of({"patternProperties": {f"{n}.*b": {} for n in range(150)}, "maxProperties": 1}),
        lambda: {f"k{n}": 1 for n in range(500)},
        UNFIT,
    ),
    Row(
        "very many names by some patterns",
        of({"patternProperties": {f"{n}.*b": STRING for n in range(150)}}),
        lambda: {f"k{n}": 1 for n in range(60_000)},
        LIMIT,
    ),
    Row(
        "some patterns for the longest text",
        of({"allOf": [{"pattern": f"{n}.*b"} for n in range(150)]}),
        lambda: "x" * 4_000_000,
        LIMIT,
    ),
    Row(
        "very many patterns",
        of({"allOf": [{"pattern": f"{n}.*b"} for n in range(1000)]}),
        lambda: "x",
        REFUSED,
    ),
    Row(
        "patterns of large classes",
        of({"anyOf": [{"pattern": rf"\p{{L}}{n}"} for n in range(70)]}),
        lambda: "x",
        UNFIT,
    ),
    Row(
        "patterns of many classes",
        of({"anyOf": [{"pattern": rf"^{n}\S{{90}}"} for n in range(150)]}),
        lambda: "x",
        REFUSED,
    ),
    Row(
        "very many words",
        of({"pattern": "|".join(f"w{n}" for n in range(2000))}),
        lambda: "w1" * 5000,
        REFUSED,
    ),
    Row("parentheses", of({"pattern": "(" * 4000 + "a" + ")" * 4000}), lambda: "a", REFUSED),
    Row("loops of loops", of({"pattern": "(" * 90 + "a" + "*)" * 90 + "b"}), lambda: "a", UNFIT),
    Row("a count without end", of({"pattern": "a{" + "9" * 5000 + "}"}), lambda: "a", REFUSED),
]
