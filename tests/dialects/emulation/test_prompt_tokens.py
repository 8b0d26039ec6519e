"""About how many tokens a text is."""

from __future__ import annotations

import pytest

from wholecall.dialects.emulation.prompt import estimate_tokens

# Counted with cl100k_base. An estimate may be off, but not by much.
COUNTED: list[tuple[str, int]] = [
    ("", 0),
    ("weather", 1),
    ("The weather in Oslo is fine today.", 8),
    ('{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}', 22),
    ('{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}', 18),
    ("1234567890", 4),
    ("東京の天気", 6),
    ("line one\nline two\n\nline three", 8),
    ("        indented", 3),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_the_estimate_is_near_a_count(text: str, tokens: int) -> None:
    assert abs(estimate_tokens(text) - tokens) <= max(2, tokens / 5)


def test_more_text_is_never_fewer_tokens() -> None:
    text = "# Tools\n\n{'a': [1, 22, 333, 4444]} naïve 東京 </tool_call>"
    estimates = [estimate_tokens(text[:end]) for end in range(len(text) + 1)]
    assert estimates == sorted(estimates)
