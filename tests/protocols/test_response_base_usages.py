from typing import Any

import pytest

from wholecall.events import Usage
from wholecall.protocols.anthropic.response import write_usage as write_message_usage
from wholecall.protocols.openai_chat.response import write_usage as write_chat_usage
from wholecall.protocols.openai_responses.response import write_usage as write_response_usage

CHAT: dict[str, Any] = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSE: dict[str, Any] = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}
MESSAGE: dict[str, Any] = {
    "input_tokens": 40,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 60,
    "output_tokens": 20,
}
GEMINI = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "thoughtsTokenCount": 5}
NO_REASONING = {"reasoning_tokens": 0}
USAGES = {
    "chat": Usage(100, 20, CHAT),
    "response": Usage(100, 20, RESPONSE),
    "message": Usage(40, 20, MESSAGE),
    "gemini": Usage(100, 20, GEMINI),
}


@pytest.mark.parametrize("source", USAGES)
def test_the_same_figures_are_told_in_every_protocol(source: str) -> None:
    usage = USAGES[source]
    # Anthropic does not say how much of its output was thinking.
    unknown = {"output_tokens_details": NO_REASONING} if source == "message" else {}
    hidden = {"completion_tokens_details": NO_REASONING} if source == "message" else {}
    assert write_chat_usage(usage) == CHAT | hidden
    assert write_response_usage(usage) == RESPONSE | unknown
    assert write_message_usage(usage) == MESSAGE


def test_figures_of_the_same_protocol_keep_what_nobody_else_knows() -> None:
    assert write_chat_usage(Usage(1, 2, CHAT | {"cost": 0.1}))["cost"] == 0.1
    assert write_response_usage(Usage(1, 2, RESPONSE | {"cost": 0.1}))["cost"] == 0.1
    assert write_message_usage(Usage(1, 2, MESSAGE | {"speed": "fast"}))["speed"] == "fast"


def test_what_is_unknown_is_nothing() -> None:
    assert write_message_usage(None) == {"input_tokens": 0, "output_tokens": 0}
    assert write_message_usage(Usage(3, None, {"input_tokens": 3}))["output_tokens"] == 0
    assert write_chat_usage(Usage(None, None, {"prompt_tokens_details": None})) == {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": NO_REASONING,
    }


def test_cached_tokens_beside_openais_figures_are_not_counted_twice() -> None:
    both = Usage(100, 20, CHAT | {"cache_read_input_tokens": 60})
    assert write_message_usage(both) == MESSAGE
