"""What a chat template may do, and what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.dialect_files import LONGEST, render_one, serve

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
