"""docs/upstreams.md names every prefix, with the addresses and variables of the code."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.providers import PREFIXES, find_upstream

PAGE = Path(__file__).parents[2] / "docs" / "upstreams.md"
ELSEWHERE = "http://127.0.0.1:9"
KEY = "key-of-a-test"


class Row(NamedTuple):
    address: str
    url_variable: str
    key_variables: tuple[str, ...]


def read_table() -> dict[str, Row]:
    lines = (line.split("|")[1:-1] for line in PAGE.read_text("utf-8").splitlines())
    rows = [[re.findall("`([^`]+)`", cell) for cell in cells] for cells in lines if len(cells) == 5]
    return {
        prefix[0].removesuffix("/"): Row("".join(address), "".join(url_variable), tuple(keys))
        for prefix, _, address, url_variable, keys in rows
        if prefix
    }


TABLE = read_table()
OVER_HTTP = [prefix for prefix in PREFIXES if prefix not in ("litellm", "local")]


def connect(prefix: str, environ: dict[str, str]) -> HttpUpstream:
    route = find_upstream(f"{prefix}/any", settings=HttpSettings(environ=environ))
    assert isinstance(route.upstream, HttpUpstream)
    return route.upstream


def test_the_table_has_every_prefix_and_no_other() -> None:
    assert tuple(TABLE) == PREFIXES


@pytest.mark.parametrize("prefix", OVER_HTTP)
def test_the_address_is_that_of_the_code(prefix: str) -> None:
    assert connect(prefix, {}).endpoint.place.startswith(f"{TABLE[prefix].address}/")


@pytest.mark.parametrize("prefix", OVER_HTTP)
def test_the_variable_of_the_address_is_read(prefix: str) -> None:
    moved = connect(prefix, {TABLE[prefix].url_variable: ELSEWHERE})
    assert moved.endpoint.place.startswith(f"{ELSEWHERE}/")


@pytest.mark.parametrize(
    ("prefix", "variable"),
    [(prefix, variable) for prefix in OVER_HTTP for variable in TABLE[prefix].key_variables],
)
def test_the_variables_of_the_key_are_read(prefix: str, variable: str) -> None:
    assert connect(prefix, {variable: KEY}).endpoint.secrets == (KEY,)
