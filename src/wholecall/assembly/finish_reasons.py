"""Finish reasons: the words of every provider, and what they may decide.

A hint never proves a call whole. In the negative direction it is believed: after a
content filter, an error or a malformed call nothing runs.
"""

from __future__ import annotations

from wholecall.events import Hint

_WORDS: dict[Hint, str] = {
    Hint.STOP: (
        "stop end_turn stop_sequence completed complete eos eos_token done "
        "finish_reason_unspecified"
    ),
    Hint.TOOL_CALLS: "tool_calls tool_call tool_use function_call function_calls requires_action",
    Hint.PAUSE: "pause_turn",
    Hint.LENGTH: (
        "length max_tokens max_output_tokens max_length max_new_tokens max_completion_tokens "
        "context_length_exceeded truncated token_limit incomplete model_length "
        "model_context_window_exceeded repetition_truncation"
    ),
    Hint.CONTENT_FILTER: (
        "content_filter content_filtered guardrail_intervened refusal safety recitation "
        "blocklist prohibited_content spii image_safety image_prohibited_content "
        "image_recitation language sensitive blocked error_toxic"
    ),
    Hint.MALFORMED: (
        "malformed_function_call malformed_response malformed_tool_use malformed_model_output "
        "unexpected_tool_call too_many_tool_calls missing_thought_signature"
    ),
    Hint.ERROR: (
        "error failed cancelled canceled user_cancelled interrupted timeout server_error "
        "rate_limit abort aborted network_error insufficient_system_resource"
    ),
}
_HINTS: dict[str, Hint] = {word: hint for hint, words in _WORDS.items() for word in words.split()}
_SEVERITY: dict[Hint, int] = {hint: rank for rank, hint in enumerate(Hint)}
# A finish reason is a short word; longer texts are ignored.
_LONGEST = 128


def read_hint(native: str) -> Hint:
    """Map a provider's finish reason to ours; `UNKNOWN` if it is not in the table."""
    word = native.strip().lower().replace("-", "_")[:_LONGEST]
    return _HINTS.get(word) or _HINTS.get(_once(word)) or _HINTS.get(_last(word)) or Hint.UNKNOWN


def _last(word: str) -> str:
    """Gemini's layer for OpenAI's clients: `function_call_filter: MALFORMED_FUNCTION_CALL`."""
    return word.rpartition(":")[2].strip()


def _once(word: str) -> str:
    """Undo the doubling of aggregators that join the field over chunks: `stopstop`."""
    # A text is a repetition of its beginning where it occurs again inside itself doubled.
    period = (word + word).find(word, 1)
    return word[:period] if word else word


def worse(first: Hint | None, second: Hint) -> Hint:
    """Of two hints in one stream, the one that allows less.

    Some gateways send two, and the last is not the truest.
    """
    if first is None:
        return second
    return max(first, second, key=_SEVERITY.__getitem__)
