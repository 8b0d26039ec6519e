"""What a chat template may do, and what it may not."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from wholecall.dialect_files import LONGEST, Rendering, failure, render, render_one, serve
from wholecall.errors import MissingExtra, UnusableDialect
from wholecall.events import JSON

# what holds, the template, what it writes
WRITTEN = [
    ("values", "{{ messages[0].content }}", "é <b>"),
    (
        "JSON as transformers writes it",
        "{{ {'a': messages[0].content} | tojson }}",
        '{"a": "é <b>"}',
    ),
    ("JSON with an indent", "{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
    ("blocks leave no lines", "a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"),
    ("loops may be left", "{% for each in [1, 2] %}{{ each }}{% break %}{% endfor %}", "1"),
    ("generation writes nothing", "{% generation %}a{% endgeneration %}", "a"),
    ("a date", "{{ strftime_now('%Y') | length }}", "4"),
]


@pytest.mark.parametrize(
    ("template", "text"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN]
)
def test_what_is_written(template: str, text: str) -> None:
    names: dict[str, Any] = {"messages": [{"content": "é <b>"}]}
    assert render_one(template, names) == {"text": text, "why": ""}


# what holds, the template, why it wrote nothing
REFUSED = [
    ("its own refusal", "{{ raise_exception('not me') }}", "not me"),
    ("broken syntax", "{% if %}", "Expected an expression"),
    ("a name that is none", "{{ nothing.at.all }}", "'nothing' is undefined"),
    ("a sum of unlike things", "{{ 1 + 'a' }}", "TypeError"),
    ("Python's insides", "{{ ().__class__.__bases__ }}", "unsafe"),
    ("changing what it got", "{{ messages.append(1) }}", "unsafe"),
    ("too much text", "{{ 'x' * " + str(LONGEST + 1) + " }}", "too long"),
]


@pytest.mark.parametrize(
    ("template", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_not_written(template: str, why: str) -> None:
    rendering = render_one(template, {"messages": []})
    assert rendering["text"] is None
    assert why in str(rendering["why"])


def test_an_order_is_answered_line_by_line() -> None:
    order = {"template": "{{ a }}{{ b }}", "tokens": {"a": "x"}, "conversations": [{"b": 1}, {}]}
    lines = [json.loads(line) for line in serve(json.dumps(order))]
    assert lines == [{"text": "x1", "why": ""}, {"text": "x", "why": ""}]


# ── Chat templates rendered in a process of their own ───────────────────────────────────

CONVERSATIONS: list[dict[str, JSON]] = [{"messages": [{"content": "hi"}]}, {"messages": []}]


def test_every_conversation_is_rendered_or_has_a_reason() -> None:
    first, second = render("{{ s }}{{ messages[0].content }}", CONVERSATIONS, tokens={"s": "é"})
    assert first == Rendering("éhi")
    assert second.text is None
    assert "no element 0" in second.why


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("template", ["{{ 'x' * 3000000000 }}", "{{ [0] * 3000000000 }}"])
def test_a_template_that_wants_everything_gets_nothing(template: str) -> None:
    with pytest.raises(UnusableDialect, match="could not be rendered"):
        render(template, CONVERSATIONS)


def test_a_template_that_takes_too_long_is_ended() -> None:
    with pytest.raises(UnusableDialect, match=r"did not end within 0\.01 s"):
        render("x", CONVERSATIONS, timeout=0.01)


def test_a_template_that_is_too_long_is_not_rendered() -> None:
    with pytest.raises(UnusableDialect, match="more than 1048576 characters"):
        render("x" * (LONGEST + 1), CONVERSATIONS)


def test_what_a_failed_process_says() -> None:
    missing = failure("Traceback …\nModuleNotFoundError: No module named 'jinja2'\n")
    assert isinstance(missing, MissingExtra)
    assert "pip install 'wholecall[learn]'" in str(missing)
    assert str(failure("")).endswith("it needed too much time or memory")
    assert str(failure("…\nKeyError: 'x'\n")).endswith("KeyError: 'x'")
