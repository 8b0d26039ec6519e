"""The example with LiteLLM, with the real package."""

from __future__ import annotations

from example_programs import results, run_example
from scripted import calls, cut, says


def test_litellm() -> None:
    done = run_example(
        "with_litellm.py",
        cut("book_table", '{"restaurant": "Lui', finish="stop"),
        calls(("book_table", {"restaurant": "Luigi's", "people": "4"})),
        says("Your table is booked."),
    )
    assert done.lines == ["booking Luigi's for 4", "Your table is booked."]
    first, again, last = done.asked
    assert again["messages"] == first["messages"], "the answer with half a call is asked for again"
    assert list(results(last).values()) == ["booked for eight o'clock"]
