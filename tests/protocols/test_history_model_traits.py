import pytest

from wholecall.protocols.anthropic.history import ANTHROPIC, anthropic_traits
from wholecall.protocols.history import ReasoningRule, Target
from wholecall.protocols.openai_chat.history import (
    DEEPSEEK,
    GEMINI,
    MISTRAL,
    OPENAI_CHAT,
    chat_traits,
)


@pytest.mark.parametrize(
    ("model", "target", "cap", "on_demand"),
    [
        ("gpt-5", OPENAI_CHAT, "max_completion_tokens", True),
        ("openai/GPT-5", OPENAI_CHAT, "max_completion_tokens", True),
        ("o3-mini", OPENAI_CHAT, "max_completion_tokens", True),
        ("gpt-oss:20b", Target(), None, True),
        ("mistralai/mistral-large", MISTRAL, "max_tokens", False),
        ("deepseek-chat", DEEPSEEK, None, True),
        ("gemini-3-pro", GEMINI, None, True),
        ("kimi-k2", Target(), None, True),
    ],
)
def test_a_name_tells_what_a_chat_endpoint_wants(
    model: str, target: Target, *, cap: str | None, on_demand: bool
) -> None:
    traits = chat_traits(model)
    assert (traits.target, traits.cap, traits.usage_on_demand) == (target, cap, on_demand)


@pytest.mark.parametrize(
    ("model", "sampling", "both"),
    [
        ("claude-sonnet-4-5", True, False),
        ("anthropic.claude-3-haiku", True, False),
        ("claude-opus-4-6", True, False),
        ("claude-opus-4-7", False, False),
        ("claude-sonnet-5", False, False),
        ("kimi-k2", True, True),
    ],
)
def test_a_name_tells_what_an_anthropic_endpoint_takes(
    model: str, *, sampling: bool, both: bool
) -> None:
    traits = anthropic_traits(model)
    assert (traits.sampling, traits.top_p_with_temperature) == (sampling, both)


def test_only_anthropic_wants_its_signature() -> None:
    assert anthropic_traits("claude-opus-4-7").target is ANTHROPIC
    assert anthropic_traits("kimi-k2").target.reasoning is ReasoningRule.ALL
