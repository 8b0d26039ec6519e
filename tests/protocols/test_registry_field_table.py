"""No field of the official SDKs' requests is lost without a word, and the page says which are."""

from __future__ import annotations

from pathlib import Path

import pytest

import field_table
from field_table import (
    CLIENTS,
    UPSTREAMS,
    Unaccounted,
    fields_of,
    find_fate,
    write_fields,
    write_pairs,
)

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


@pytest.mark.parametrize(
    ("client", "field"), [(client, field) for client in CLIENTS for field in fields_of(client)]
)
def test_every_field_is_accounted_for(client: str, field: str) -> None:
    for upstream in UPSTREAMS:
        assert find_fate(client, upstream, field=field)


def test_a_field_that_is_new_is_noticed() -> None:
    with pytest.raises(Unaccounted, match="'brand_new' without a sample"):
        find_fate("openai-chat", "anthropic", field="brand_new")


def test_a_field_that_vanishes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_table, "find_dropped", lambda *_, **__: ())
    with pytest.raises(Unaccounted, match="'seed' of openai-chat vanishes"):
        find_fate("openai-chat", "anthropic", field="seed")


def test_the_page_has_the_tables_as_they_are() -> None:
    """To renew them: paste what `tests/field_table.py` prints."""
    page = PAGE.read_text("utf-8")
    assert write_pairs() in page
    assert write_fields() in page
