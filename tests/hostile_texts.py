"""Texts that cost more than their characters, all the way from the stream to the feedback."""

from __future__ import annotations

import json
from functools import partial

from hostile import BROKEN, FITS, INTEGER, LIMIT, UNFIT, Row, Text, items, of

LONG = 4 * 1024 * 1024 - 64
"""Characters: nearly as many as a call may have."""
MANY = 60_000
"""Values: nearly as many as a call may have."""
REPAIRED = 64 * 1024 - 64

ANY, ARRAY = of({}), items({})


def fill(piece: str, *, length: int = LONG, end: str = '"}') -> Text:
    """A string of pieces."""
    return Text('{"a":"' + piece * (length // len(piece)) + end)


def row(piece: str, *, count: int | None = None, end: str = "1]}") -> Text:
    """An array of pieces."""
    return Text('{"a":[' + piece * (LONG // len(piece) if count is None else count) + end)


def keys(count: int, *, times: int = 1) -> Text:
    return Text('{"a":{' + ",".join(f'"k{n}":1' for n in range(count) for _ in range(times)) + "}}")


def wrap(text: str, *, times: int) -> Text:
    for _ in range(times):
        text = json.dumps({"arguments": text})
    return Text(text)


def worst(piece: str, *, before: str = "{a:[", end: str = "]}", count: int | None = None) -> Text:
    """As long as what is repaired may be."""
    return Text(before + piece * (REPAIRED // len(piece) if count is None else count) + end)


ROWS: list[Row] = [
    # ── Strings ─────────────────────────────────────────────────────────────────────
    Row("the longest string", ANY, partial(fill, "x"), FITS),
    Row("the longest string, not for this tool", of(INTEGER), partial(fill, "x"), UNFIT),
    Row("escapes everywhere", ANY, partial(fill, "\\n"), FITS),
    Row("escapes of four digits", ANY, partial(fill, "\\u00e9"), FITS),
    Row("escapes, commas and brackets", ANY, partial(fill, '1,2,[3],{4},\\"'), FITS),
    Row("backslashes", ANY, partial(fill, "\\\\"), FITS),
    Row("backslashes and a quote too many", ANY, partial(fill, "\\", end='\\"}'), BROKEN),
    Row("a bad escape at the end", ANY, partial(fill, "\\n", end='\\x"}'), BROKEN),
    Row("half an escape at the end", ANY, partial(fill, "\\n", end="\\u00"), BROKEN),
    Row("a raw control character at the end", ANY, partial(fill, "\\n", end='\n"}'), BROKEN),
    Row("pairs of escaped halves", ANY, partial(fill, "\\ud83d\\ude00"), FITS),
    Row("escaped halves alone", ANY, partial(fill, "\\ud83d"), LIMIT),
    Row("one escaped half behind escapes", ANY, partial(fill, "\\n", end='\\ud83d"}'), FITS),
    Row("raw halves alone", ANY, partial(fill, "\ud83d"), LIMIT),
    Row("pairs of raw halves", ANY, partial(fill, "\ud83d\ude00"), LIMIT),
    Row("some halves of all kinds", ANY, partial(fill, "\ud83d\\ude00", length=40_000), FITS),
    Row("quotes", ANY, partial(fill, '"'), LIMIT),
    Row("a name without end", ANY, lambda: Text('{"' + "x" * LONG + '":1}'), UNFIT),
    # ── Numbers ─────────────────────────────────────────────────────────────────────
    Row("numbers as long as may be", ARRAY, partial(row, "9" * 640 + ","), FITS),
    Row("numbers that are longer", ARRAY, partial(row, "9" * 4000 + ","), BROKEN),
    Row("one number that is longer", ARRAY, partial(row, "9"), BROKEN),
    Row("a longer one behind many", ARRAY, partial(row, "1,", count=MANY, end="9" * 999), BROKEN),
    Row("a larger one behind many", ARRAY, partial(row, "1.5,", count=MANY, end="1e999]}"), BROKEN),
    Row("no number behind many", ARRAY, partial(row, '"NaN",', count=MANY, end="NaN]}"), BROKEN),
    Row("floats", ARRAY, partial(row, "1.5,", count=MANY), FITS),
    # ── Values ──────────────────────────────────────────────────────────────────────
    Row("numbers without end", ARRAY, partial(row, "1,"), LIMIT),
    Row("texts without end", ARRAY, partial(row, '"",'), LIMIT),
    Row("arrays without end", ARRAY, partial(row, "[],"), LIMIT),
    Row("objects without end", ARRAY, partial(row, "{},"), LIMIT),
    Row("arrays in arrays without end", ARRAY, partial(row, "[" * 99 + "]" * 99 + ","), LIMIT),
    Row("many numbers", ARRAY, partial(row, "1,", count=MANY), FITS),
    Row("many texts", ARRAY, partial(row, '"\\n",', count=MANY), FITS),
    Row("many arrays", ARRAY, partial(row, "[],", count=MANY // 3), FITS),
    Row("many objects", ARRAY, partial(row, "{},", count=MANY // 3), FITS),
    Row("many objects with one member", ARRAY, partial(row, '{"k":1},', count=MANY // 3), FITS),
    Row("many names", ANY, partial(keys, MANY), FITS),
    Row(
        "many objects, not for this tool", items(INTEGER), partial(row, "{},", count=20_000), UNFIT
    ),
    Row("many texts to be coerced", items(INTEGER), partial(row, '"1",', count=MANY), UNFIT),
    Row("many names given twice", ANY, partial(keys, MANY // 2, times=2), UNFIT),
    Row("a name given often", ANY, partial(keys, 1, times=MANY), UNFIT),
    Row("many names that no one knows", of({}), lambda: Text(keys(MANY)[5:-1]), LIMIT),
    # ── Brackets and blanks ─────────────────────────────────────────────────────────
    Row("brackets without end", ANY, lambda: Text('{"a":' + "[" * LONG), LIMIT),
    Row("closers without end", ANY, lambda: Text('{"a":' + "[" * 100 + "]" * (LONG - 200)), BROKEN),
    Row("brackets behind the end", ANY, lambda: Text('{"a":1}' + "[" * LONG), FITS),
    Row("closers behind the end", ANY, lambda: Text('{"a":1}' + "}" * LONG), FITS),
    Row("deep and wide", ANY, partial(row, "[" * 99 + "]" * 99 + ",", count=240), FITS),
    Row("deep and cut", ANY, partial(row, "[" * 99 + "]" * 99 + ",", count=240, end=""), BROKEN),
    Row("blanks without end", ANY, lambda: Text('{"a":' + " " * LONG + "1}"), BROKEN),
    Row("blanks everywhere", ARRAY, partial(row, "1 , ", count=MANY), FITS),
    Row("long blanks", ARRAY, partial(row, " " * 1000 + "1,"), FITS),
    Row("words without end", ANY, lambda: Text('{"a":' + "true " * (LONG // 5) + "}"), BROKEN),
    # ── Again and again ─────────────────────────────────────────────────────────────
    Row("the same object again", ARRAY, lambda: Text(row("1,", count=9000) * 8), FITS),
    Row("other objects", ARRAY, lambda: Text(row("1,", count=9000) + '{"a":1}' * 9000), BROKEN),
    Row("placeholders", ANY, lambda: Text("{}" * 100_000), LIMIT),
    Row("a wrapper around much", ARRAY, lambda: wrap(row("1,", count=MANY), times=1), FITS),
    Row("wrappers in wrappers", ANY, lambda: wrap(fill("x", length=2000), times=9), UNFIT),
    Row("text that is text", ANY, lambda: Text(json.dumps(fill("\\n", length=LONG // 4))), FITS),
    # ── Repairs ─────────────────────────────────────────────────────────────────────
    Row("strings in apostrophes", ANY, partial(worst, "'a',", count=9900), FITS),
    Row("names without quotes", ANY, partial(worst, "{a:1},", count=4900), FITS),
    Row("Python's words", ANY, partial(worst, "None,", count=9900), FITS),
    Row("commas too many", ANY, partial(worst, "[1,],", count=3300), FITS),
    Row("raw control characters", ANY, partial(worst, "\t", before='{"a":"', end='"}'), FITS),
    Row("escapes of Python", ANY, partial(worst, "\\'", before="{'a':'", end="'}"), FITS),
    Row("backslashes of a path", ANY, partial(worst, "\\P", before='{"a":"', end='"}'), FITS),
    Row("a fence without end", ANY, partial(worst, "`", before="", end='{"a":1}'), FITS),
    Row(
        "what cannot be repaired", ANY, partial(worst, "'a',", count=9900, end="'a' 'b']}"), BROKEN
    ),
    Row("what is too long to be repaired", ARRAY, partial(row, "'a',", count=MANY), BROKEN),
]
