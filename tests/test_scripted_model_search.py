"""Sections of pages, and which of them a question means."""

import pytest

from wholecall.scripted_model import Section, load_sections, read_sections, search, search_docs

PAGE = """Before the first heading.

# Approvals
Some calls wait for a person.

## Timeouts
How long a person may take.

#### No section of its own
More.

## Only a heading
"""


def test_a_page_is_cut_at_its_headings() -> None:
    assert list(read_sections("page.md", PAGE)) == [
        Section("page.md", "Approvals", "Some calls wait for a person."),
        Section(
            "page.md",
            "Timeouts",
            "How long a person may take.\n\n#### No section of its own\nMore.",
        ),
    ]


def test_a_long_section_is_shortened() -> None:
    assert sum(len(section.text) for section in search("approvals", load_sections())) > 1500
    assert len(search_docs("approvals")) < 1500


SECTIONS = (
    Section("a.md", "Retries", "What is asked again."),
    Section("b.md", "Limits", "A retry counts, and so does each retry of a retry."),
    Section("c.md", "Colours", "Red and green."),
    Section("d.md", "Limits of retries", "How often."),
)


def titles(query: str, most: int = 3) -> list[str]:
    return [section.title for section in search(query, SECTIONS, most=most)]


def test_the_best_comes_first_and_what_does_not_fit_is_left_out() -> None:
    assert titles("limit of retries")[0] == "Limits of retries"
    assert "Colours" not in titles("retries limit", most=9)
    assert titles("unknown") == []
    assert len(titles("retries", most=1)) == 1


def test_our_own_pages_are_there() -> None:
    pages = {section.page for section in load_sections()}
    assert {"tools.md", "approvals.md"} <= pages
    assert any(section.page == "approvals.md" for section in search("approve", load_sections()))


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("How do I require an approval?", "approvals.md"),
        ("Can a person approve a call before it runs?", "approvals.md"),
        ("How do I add an MCP server?", "mcp.md"),
        ("How do I put it in front of Ollama?", "in-front-of.md"),
        ("Which metrics are there?", "metrics.md"),
        ("How do I test my own agent?", "testing-your-agent.md"),
        ("What does the inspector show?", "inspector.md"),
        ("How do I write a tool?", "tools.md"),
    ],
)
def test_a_question_finds_the_page_that_answers_it(question: str, page: str) -> None:
    assert page in [section.page for section in search(question, load_sections())]
