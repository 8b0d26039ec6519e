"""Chat templates rendered in a process of their own."""

from __future__ import annotations

import sys

import pytest

from wholecall.dialect_files import LONGEST, Rendering, failure, render
from wholecall.errors import MissingExtra, UnusableDialect
from wholecall.events import JSON

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
