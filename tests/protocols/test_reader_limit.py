"""What a reader makes of an answer that the output limit ended, in every protocol.

An answer is given by its parts: `call` is a whole call, `text` are words. Each protocol writes
them as its servers do, streamed and whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wholecall.assembly.assembler import Assembler
from wholecall.dialects.rescue import RescuingAssembler
from wholecall.events import Oddity, Outcome, Reason, collect
from wholecall.protocols.reader import Reader, TurnAssembler

LIMIT = 100
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("f", "g")
]


def ollama(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    """A chunk for each part; the figures come with the last one."""
    said: dict[str, Any] = {
        "call": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        "empty": {"tool_calls": [{"function": {"name": "g", "arguments": {}}}]},
        "text": {"content": "Hm."},
        "think": {"thinking": "Hm."},
        "blank": {"content": " "},
    }
    last = {"message": {"content": ""}, "done": True, "done_reason": end, "eval_count": tokens}
    return [*({"message": said[part]} for part in parts), last]


_GEMINI: dict[str, Any] = {
    "call": {"functionCall": {"name": "f", "args": {"a": 1}}},
    "empty": {"functionCall": {"name": "g", "args": {}}},
    "text": {"text": "Hm."},
    "think": {"text": "Hm.", "thought": True},
    "blank": {"text": " "},
}


def gemini(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    """A chunk for each part; thoughts are counted apart."""
    counts = {} if tokens is None else {"candidatesTokenCount": 1, "thoughtsTokenCount": tokens - 1}
    return [
        *({"candidates": [{"content": {"parts": [_GEMINI[part]]}}]} for part in parts),
        {"candidates": [{"finishReason": end.upper()}], "usageMetadata": counts},
    ]


def gemini_whole(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    last = gemini([], end, tokens=tokens)[0]
    content = {"parts": [_GEMINI[part] for part in parts]}
    return [{**last, "candidates": [{"content": content, "finishReason": end.upper()}]}]


def bedrock(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    said: dict[str, Any] = {
        "call": {"toolUse": {"name": "f", "input": {"a": 1}}},
        "empty": {"toolUse": {"name": "g", "input": {}}},
        "text": {"text": "Hm."},
        "think": {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
        "blank": {"text": " "},
    }
    message = {"content": [said[part] for part in parts]}
    usage = {} if tokens is None else {"usage": {"inputTokens": 1, "outputTokens": tokens}}
    return [{"output": {"message": message}, "stopReason": end, **usage}]


def anthropic(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    said: dict[str, Any] = {
        "call": {"type": "tool_use", "name": "f", "input": {"a": 1}},
        "empty": {"type": "tool_use", "name": "g", "input": {}},
        "text": {"type": "text", "text": "Hm."},
        "think": {"type": "thinking", "thinking": "Hm."},
        "blank": {"type": "text", "text": " "},
    }
    content = [
        {**said[part], **({"id": f"t{at}"} if "name" in said[part] else {})}
        for at, part in enumerate(parts)
    ]
    usage = {} if tokens is None else {"usage": {"input_tokens": 1, "output_tokens": tokens}}
    return [{"type": "message", "content": content, "stop_reason": end, **usage}]


def chat(parts: list[str], end: str, *, tokens: int | None) -> list[Any]:
    """Words stand before the calls in a body, whatever was written first."""
    entry = {"function": {"name": "f", "arguments": {"a": 1}}}
    calls = [{"id": f"t{at}", **entry} for at, part in enumerate(parts) if part == "call"]
    message = {"content": "Hm." if "text" in parts else None, "tool_calls": calls}
    usage = {} if tokens is None else {"usage": {"completion_tokens": tokens}}
    return [{"choices": [{"message": message, "finish_reason": end}], **usage}]


Writer = Callable[..., list[Any]]
# Protocol, whether it is streamed, who writes it, its words for the limit and for a good end.
FORMS: dict[str, tuple[str, bool, Writer, str, str]] = {
    "ollama, streamed": ("ollama", True, ollama, "length", "stop"),
    "gemini, streamed": ("gemini", True, gemini, "max_tokens", "stop"),
    "gemini, whole": ("gemini", False, gemini_whole, "max_tokens", "stop"),
    "bedrock, whole": ("bedrock-converse", False, bedrock, "max_tokens", "tool_use"),
    "anthropic, whole": ("anthropic", False, anthropic, "max_tokens", "tool_use"),
    "chat, whole": ("openai-chat", False, chat, "length", "tool_calls"),
}
# The parts of an answer, and what becomes of its calls at the limit.
ORDERS: list[tuple[list[str], str]] = [
    (["call"], "!"),
    (["call", "blank"], "!"),
    (["text", "call"], "!"),
    (["call", "text"], "f"),
    (["call", "think"], "f"),
    (["call", "call"], "f !"),
    (["call", "text", "call"], "f !"),
    (["empty"], "!"),
    (["empty", "text"], "g"),
    (["empty", "call"], "g !"),
]
ROWS = [
    pytest.param(form, parts, said, id=f"{form}: {' '.join(parts)}")
    for form in FORMS
    for parts, said in ORDERS
    # In a body of OpenAI's nobody sees whether words came before the calls or after them.
    if form != "chat, whole" or set(parts) == {"call"} or parts == ["text", "call"]
]


def read(
    form: str,
    chunks: list[Any],
    *,
    max_tokens: int | None = None,
    new_assembler: Callable[..., TurnAssembler] = RescuingAssembler,
) -> Outcome:
    protocol, streamed, *_ = FORMS[form]
    reader = Reader(protocol, TOOLS, new_assembler=new_assembler, max_tokens=max_tokens)
    feed = reader.feed if streamed else reader.feed_response
    events = [event for chunk in chunks for event in feed(chunk)]
    return collect([*events, *reader.end()])


def say(outcome: Outcome) -> str:
    assert {each.reason for each in outcome.rejected} <= {Reason.TRUNCATED}
    verdicts = [
        *((call.number, call.name) for call in outcome.calls),
        *((each.number, "!") for each in outcome.rejected),
    ]
    return " ".join(word for _, word in sorted(verdicts))


@pytest.mark.parametrize("new_assembler", [Assembler, RescuingAssembler])
@pytest.mark.parametrize(("form", "parts", "said"), ROWS)
def test_a_parsed_call_is_doubtful_only_where_it_is_last(
    *, form: str, parts: list[str], said: str, new_assembler: Callable[..., TurnAssembler]
) -> None:
    _, _, write, limit, _ = FORMS[form]
    told = read(form, write(parts, limit, tokens=None), new_assembler=new_assembler)
    assert say(told) == said


@pytest.mark.parametrize(("form", "parts", "said"), ROWS)
def test_a_limit_that_only_the_tokens_show_is_the_same(
    *, form: str, parts: list[str], said: str
) -> None:
    _, _, write, _, good = FORMS[form]
    hidden = read(form, write(parts, good, tokens=LIMIT), max_tokens=LIMIT)
    assert say(hidden) == said
    assert hidden.finish_reason == ("tool_calls" if hidden.calls else "length")
    assert Oddity.LIMIT_REACHED in [each.oddity for each in hidden.inconsistencies]
    for tokens, max_tokens in ((LIMIT - 1, LIMIT), (LIMIT, None), (None, LIMIT), (LIMIT, 0)):
        fine = read(form, write(parts, good, tokens=tokens), max_tokens=max_tokens)
        assert not fine.rejected
        assert len(fine.calls) == sum(part in ("call", "empty") for part in parts)


def test_text_that_was_held_back_before_a_call_does_not_follow_it() -> None:
    # `<tool` may begin a call in the text; it is given only at the end, after the native call.
    chunks = [{"message": {"content": "<tool"}}, *ollama(["call"], "length", tokens=None)]
    assert say(read("ollama, streamed", chunks)) == "!"


# ── When the figures come ───────────────────────────────────────────────────────────

HALF = {"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}
DONE = "data: [DONE]\n\n"


def chunk(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    delta = {"tool_calls": [HALF]} if finish is None else {}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


def spent(tokens: Any, **details: int) -> dict[str, Any]:
    """The last chunk of OpenAI's: figures, and no choice."""
    apart = {"completion_tokens_details": details} if details else {}
    return {"choices": [], "usage": {"completion_tokens": tokens, **apart}}


CUT = [chunk(), chunk("tool_calls")]
EVERY = [chunk(usage=spent(LIMIT)["usage"]), chunk("tool_calls")]
BLOCK = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
ITEM = {"type": "function_call", "id": "i", "call_id": "t", "name": "f", "arguments": "{}"}
RESPONSE = {"status": "completed", "output": [ITEM], "usage": {"output_tokens": LIMIT}}
MOMENTS: list[tuple[str, str, list[Any]]] = [
    ("in a chunk without choices", "openai-chat", [*CUT, spent(LIMIT), DONE]),
    ("after the end", "openai-chat", [*CUT, DONE, spent(LIMIT)]),
    ("before the finish reason", "openai-chat", [*EVERY, DONE]),
    ("as a float", "openai-chat", [*CUT, spent(float(LIMIT)), DONE]),
    ("above the limit", "openai-chat", [*CUT, spent(LIMIT + 1), DONE]),
    ("reasoning in it", "openai-chat", [*CUT, spent(LIMIT, reasoning_tokens=90), DONE]),
    ("much reasoning in it", "openai-chat", [*CUT, spent(190, reasoning_tokens=90), DONE]),
    (
        "with the stop reason, after those of the beginning",
        "anthropic",
        [
            {"type": "message_start", "message": {"usage": {"output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": BLOCK},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": LIMIT},
            },
            {"type": "message_stop"},
        ],
    ),
    (
        "with the whole response",
        "openai-responses",
        [{"type": "response.completed", "response": RESPONSE}],
    ),
    (
        "after the stop",
        "bedrock-converse",
        [
            {
                "contentBlockStart": {
                    "contentBlockIndex": 0,
                    "start": {"toolUse": {"toolUseId": "t", "name": "f"}},
                }
            },
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "tool_use"}},
            {"metadata": {"usage": {"inputTokens": 1, "outputTokens": LIMIT}}},
        ],
    ),
]


def hear(protocol: str, chunks: list[Any], *, max_tokens: int | None) -> Outcome:
    reader = Reader(protocol, TOOLS, new_assembler=RescuingAssembler, max_tokens=max_tokens)
    events = [event for each in chunks for event in reader.feed(each)]
    return collect([*events, *reader.end()])


@pytest.mark.parametrize(
    ("protocol", "chunks"), [row[1:] for row in MOMENTS], ids=[row[0] for row in MOMENTS]
)
def test_the_figures_count_whenever_they_come(protocol: str, chunks: list[Any]) -> None:
    outcome = hear(protocol, chunks, max_tokens=LIMIT)
    assert (say(outcome), outcome.finish_reason) == ("!", "length")
    assert "output limit" in outcome.rejected[0].detail
    assert outcome.native_finish_reason in ("tool_calls", "tool_use", "completed")
    for max_tokens in (LIMIT * 10, None):
        assert say(hear(protocol, chunks, max_tokens=max_tokens)) == "f"


def figures_that_say_nothing() -> Iterator[Any]:
    yield pytest.param([DONE], id="none")
    for tokens in (None, "100", -1, True, LIMIT - 1):
        yield pytest.param([spent(tokens), DONE], id=f"{tokens!r} tokens")
    apart = spent(LIMIT + 50, reasoning_tokens=90)
    yield pytest.param([apart, DONE], id="reasoning that the limit does not count")
    other = {"choices": [{"index": 1, "delta": {"content": "Hm."}, "finish_reason": "stop"}]}
    yield pytest.param([other, spent(LIMIT), DONE], id="the sum over two choices")


@pytest.mark.parametrize("rest", list(figures_that_say_nothing()))
def test_figures_that_say_nothing_change_nothing(rest: list[Any]) -> None:
    assert say(hear("openai-chat", CUT + rest, max_tokens=LIMIT)) == "f"


def test_each_choice_has_a_last_call_of_its_own() -> None:
    entry = {"index": 0, "id": "t", "function": {"name": "f", "arguments": {"a": 1}}}
    chunks: list[Any] = [
        {"choices": [{"index": at, "delta": {"tool_calls": [entry]}} for at in (0, 1)]},
        {"choices": [{"index": 1, "delta": {"content": "Hm."}}]},
        {"choices": [{"index": at, "delta": {}, "finish_reason": "length"} for at in (0, 1)]},
        DONE,
    ]
    outcome = hear("openai-chat", chunks, max_tokens=None)
    assert (say(outcome), say(outcome.choices[1])) == ("!", "f")


def test_a_block_of_the_provider_follows_a_call_as_words_do() -> None:
    blocks = [
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ]
    body = {"type": "message", "content": blocks, "stop_reason": "max_tokens"}
    assert say(read("anthropic, whole", [body])) == "f"
