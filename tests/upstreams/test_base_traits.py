"""What is known of who answers, by the model's name."""

from __future__ import annotations

import pytest

from wholecall.upstreams.base import TRAITS, Traits, traits_of

ROWS = [
    ("local/mine.gguf", TRAITS),
    ("local/", TRAITS),
    ("local", Traits()),
    ("locals/mine", Traits()),
    ("openai/local/x", Traits()),
    ("gpt-x", Traits()),
    ("", Traits()),
]


@pytest.mark.parametrize(("model", "traits"), ROWS)
def test_the_prefix_decides(model: str, traits: Traits) -> None:
    assert traits_of(model) == traits


def test_a_model_on_this_machine_is_held_to_a_grammar_and_soon_stopped() -> None:
    assert (TRAITS.emulation, TRAITS.constraint) == ("constrained", "grammar")
    assert (TRAITS.forces_natively, TRAITS.identical) == (False, 2)
