"""Every client gets every kind of answer from every upstream, and the page says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from any_upstream import UPSTREAMS
from case_table import CASES, ROWS, expect, find_column

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


@pytest.mark.parametrize("prefix", UPSTREAMS)
def test_each_client_gets_each_answer_streamed_and_whole(prefix: str) -> None:
    """To renew the page: paste what `tests/case_table.py` prints."""
    lines = PAGE.read_text("utf-8").splitlines()
    column = 3 + list(UPSTREAMS).index(prefix)
    for row, (streamed, whole) in asyncio.run(find_column(prefix)).items():
        expected = expect(row.client, CASES[row.name])
        assert (row, streamed) == (row, expected)
        assert (row, whole) == (row, expected)
        start = row.write([]).rstrip("| ")
        [line] = [line for line in lines if line.startswith(f"{start} |")]
        assert line.split("|")[column].strip() == str(expected)


def test_the_page_has_no_other_rows() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| client | answer |"))
    rows = [line for line in lines[start + 2 : start + 2 + len(ROWS)] if line.startswith("|")]
    assert (len(rows), lines[start + 2 + len(ROWS)]) == (len(ROWS), "")
