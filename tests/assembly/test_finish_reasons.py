"""Finish reasons: every provider's word, and which of two is believed."""

from itertools import permutations

import pytest

from wholecall.assembly.finish_reasons import read_hint, worse
from wholecall.events import Hint

# A provider's words, and ours.
WORDS = {
    Hint.STOP: "stop end_turn stop_sequence completed eos eos_token done FINISH_REASON_UNSPECIFIED",
    Hint.TOOL_CALLS: "tool_calls tool_call tool_use tool-calls function_call function_calls",
    Hint.PAUSE: "pause_turn",
    Hint.LENGTH: "length max_tokens MAX_TOKENS max_output_tokens incomplete token_limit "
    "model_length model_context_window_exceeded",
    Hint.CONTENT_FILTER: "content_filter content_filtered guardrail_intervened refusal SAFETY "
    "RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY LANGUAGE sensitive",
    Hint.MALFORMED: "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS "
    "MALFORMED_RESPONSE malformed_tool_use malformed_model_output MISSING_THOUGHT_SIGNATURE",
    Hint.ERROR: "error failed cancelled abort network_error insufficient_system_resource",
}


@pytest.mark.parametrize(
    ("word", "hint"), [(word, hint) for hint, words in WORDS.items() for word in words.split()]
)
def test_a_provider_s_word_is_mapped(word: str, hint: Hint) -> None:
    assert read_hint(word) is hint


# what holds, native, hint
ODD = [
    ("Gemini shouts", "STOP", Hint.STOP),
    ("white space around a word is no part of it", " tool_calls\n", Hint.TOOL_CALLS),
    ("an aggregator joined the word of two chunks", "stopstop", Hint.STOP),
    ("or of three", "tool_callstool_callstool_calls", Hint.TOOL_CALLS),
    (
        "a gateway wrote its filter before it",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        Hint.MALFORMED,
    ),
    ("a doubled cut is still a cut", "lengthlength", Hint.LENGTH),
    ("two different words in one are not guessed", "tool_callsstop", Hint.UNKNOWN),
    ("a word that begins like a known one is another", "stopped_early", Hint.UNKNOWN),
    ("a word that nobody told us of", "banana", Hint.UNKNOWN),
    ("nothing", "", Hint.UNKNOWN),
    ("a page instead of a word", "x" * 1_000_000, Hint.UNKNOWN),
    ("a page of a known word is not read to its end", "stop" * 1_000_000, Hint.STOP),
]


@pytest.mark.parametrize(("native", "hint"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_an_odd_word_is_read_or_unknown(native: str, hint: Hint) -> None:
    assert read_hint(native) is hint


# From what allows most to what allows least.
ORDER = [
    Hint.STOP,
    Hint.TOOL_CALLS,
    Hint.PAUSE,
    Hint.UNKNOWN,
    Hint.LENGTH,
    Hint.CONTENT_FILTER,
    Hint.MALFORMED,
    Hint.ERROR,
]


def test_every_hint_has_its_place_in_the_order() -> None:
    assert set(ORDER) == set(Hint)


@pytest.mark.parametrize(("first", "second"), list(permutations(Hint, 2)))
def test_of_two_hints_the_one_that_allows_less_is_kept(first: Hint, second: Hint) -> None:
    assert worse(first, second) is max(first, second, key=ORDER.index)


@pytest.mark.parametrize("hint", Hint)
def test_one_hint_alone_is_taken(hint: Hint) -> None:
    assert worse(None, hint) is hint
    assert worse(hint, hint) is hint
