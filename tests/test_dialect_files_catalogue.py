"""All dialects, described; and the table in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from wholecall.dialect_files import SAMPLE_CALL, SAMPLE_TOOL, describe, entries, table
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.rescue import parse_text

DOCS = Path(__file__).parents[1] / "docs" / "dialects.md"


def test_every_dialect_has_an_entry() -> None:
    described = list(entries())
    assert [entry.name for entry in described] == sorted(DIALECTS)
    assert all(entry.family and entry.models for entry in described)


@pytest.mark.parametrize("name", [entry.name for entry in entries() if entry.sample])
def test_the_sample_is_a_call(name: str) -> None:
    tool, arguments = SAMPLE_CALL
    outcome = parse_text(name, describe(DIALECTS[name]).sample, tools=[SAMPLE_TOOL])
    assert [(call.name, dict(call.arguments)) for call in outcome.calls] == [(tool, arguments)]


CANNOT = {
    "hermes": "",
    "yaml_xml": "",
    "pythonic": "keys that are not identifiers",
    "gemma4": "a string that holds its quoting mark; keys that are not words",
    "glm45": "a value that holds one of its tags; keys that are not words; types that no schema "
    "tells",
    "kimi_k3": "a value that holds one of its tags; keys that are not words",
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_a_dialect_cannot_carry(name: str) -> None:
    assert describe(DIALECTS[name]).cannot == CANNOT[name]


def test_white_space_that_is_lost_is_told() -> None:
    assert describe(DIALECTS["morph_xml"]).cannot.endswith("; white space around a value")


NO_FORMATS = {"auto", "constrained", "hf_response_template", "think_tags"}


def test_every_format_was_seen_somewhere() -> None:
    unseen = {entry.name for entry in entries() if not entry.seen}
    assert unseen == NO_FORMATS
    assert describe(DIALECTS["hermes"]).seen == "template, parser, answer"
    assert describe(DIALECTS["hunyuan_v4"]).seen == "parser"


def test_families() -> None:
    families = {name: describe(DIALECTS[name]).family for name in ("auto", "think_tags", "mistral")}
    assert families == {
        "auto": "every family",
        "think_tags": "no calls",
        "mistral": "a name, then JSON",
    }


def test_the_docs_hold_the_table() -> None:
    text = DOCS.read_text(encoding="utf-8")
    written = text.partition("<!-- table -->\n")[2].partition("\n<!-- /table -->")[0]
    assert written == table()
