"""At the output limit a call in a text needs its brace or its closing mark, in every format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulated_requests import LENGTH, PROMPTED, STOP, ask, understand
from recut import every_cutting
from wholecall.dialects.emulation.emulate import emulate
from wholecall.dialects.rescue import RescuingAssembler, encode
from wholecall.events import (
    Delta,
    Hint,
    HintGiven,
    LimitReached,
    Outcome,
    Reason,
    Reasoning,
    Start,
    Terminated,
    Text,
    collect,
)
from wholecall.messages import ToolSpec

WRITE = ToolSpec(
    "write",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path"],
    },
)
NOW = ToolSpec("now", {"type": "object", "properties": {}})
PEEK = ToolSpec("peek", WRITE.parameters, start=Start.CLOSED)
ARGUMENTS = {"path": "a", "content": "b c"}
# What closes a call in tags or as code; in all other formats its last brace does.
CLOSERS = {
    "anthropic_xml": "</invoke>",
    "deepseek_v32_dsml": "</\uff5cDSML\uff5cinvoke>",
    "deepseek_v4_dsml": "</\uff5cDSML\uff5cinvoke>",
    "dots": "</invoke>",
    "functionary_v31": "</function>",
    "gigachat35": "</\uff5cGCML\uff5cinvoke>",
    "glm45": "</tool_call>",
    "glm47": "</tool_call>",
    "hunyuan_v3": "</tool_call>",
    "hunyuan_v4": "</tool_call>",
    "iquest_coder_v2": "</iquestcoder_tool_call>",
    "k2_horizon": "</ifm|tool_call>",
    "kimi_k3": "<|close|>call<|sep|>",
    "lfm2": ")",
    "longcat_xml": "</longcat_tool_call>",
    "minicpm5": "</function>",
    "minimax_m2": "</invoke>",
    "minimax_m3": "]<]minimax[>[</invoke>",
    "morph_xml": "</write>",
    "muse_atem": "</atem:invoke>",
    "olmo3": ")",
    "poolside_v1": "</tool_call>",
    "pythonic": ")",
    "qwen3_xml": "</function>",
    "seed_oss": "</function>",
    "solar_open2": "<|tool_call:end|>",
    "step3": "</steptml:invoke>",
    "ui_tars": ")",
    "yaml_xml": "</write>",
}
# Formats whose models may stop where they would close the call.
RESTING = ["functionary_v31", "glm45", "glm47", "hunyuan_v3", "hunyuan_v4"]
RESTING += ["iquest_coder_v2", "longcat_xml", "poolside_v1", "qwen3_xml", "seed_oss"]
# They are read only where they were announced.
ANNOUNCED_ONLY = {"functionary_v32", "yaml_xml"}
HIDDEN: list[Delta] = [HintGiven(Hint.STOP, "stop"), LimitReached(), Terminated()]
TOLD_LATE: list[Delta] = [HintGiven(Hint.TOOL_CALLS, "x"), Terminated(), LimitReached()]
LIMITS = [list(LENGTH), HIDDEN, TOLD_LATE]


def announced(dialect: str, text: str | list[str], *, ending: Any) -> Outcome:
    return understand(emulate(ask(tools=(WRITE, NOW, PEEK)), dialect), text, ending=ending)


def rescued(_: str, text: str | list[str], *, ending: Any) -> Outcome:
    assembler = RescuingAssembler([WRITE, NOW, PEEK])
    pieces = [text] if isinstance(text, str) else text
    deltas = [*map(Text, pieces), *ending]
    return collect(
        [*(event for each in deltas for event in assembler.feed(each)), *assembler.end()]
    )


WAYS: dict[str, Callable[..., Outcome]] = {
    "announced": announced,
    "rescued": rescued,
}
ROWS = [
    pytest.param(way, dialect, id=f"{dialect}, {way}")
    for dialect in PROMPTED
    for way in WAYS
    if way == "announced" or dialect not in ANNOUNCED_ONLY
]


def proof_of(dialect: str, text: str, *, name: str) -> int:
    """Return where the call is closed."""
    closer = CLOSERS.get(dialect, "}").replace("write", name)
    # The objects around a list of calls are closed after it.
    around = text.rindex("]") if text.endswith("]}") else len(text)
    return text.rindex(closer, 0, around) + len(closer)


@pytest.mark.parametrize(("way", "dialect"), ROWS)
def test_a_call_runs_from_its_closing_mark_on(*, way: str, dialect: str) -> None:
    for name, arguments in (("write", ARGUMENTS), ("now", {})):
        text = encode(dialect, [(name, arguments)])
        proof = proof_of(dialect, text, name=name)
        before = [
            WAYS[way](dialect, text[:at], ending=LENGTH) for at in range(max(proof - 24, 1), proof)
        ]
        assert not any(outcome.calls for outcome in before)
        for at in (proof, len(text)):
            [call] = WAYS[way](dialect, text[:at], ending=LENGTH).calls
            assert (call.name, dict(call.arguments)) == (name, arguments)


@pytest.mark.parametrize("ending", LIMITS, ids=["told", "hidden", "told late"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dialect", RESTING)
def test_that_nothing_is_missing_counts_only_after_a_good_end(
    *, dialect: str, way: str, ending: list[Delta]
) -> None:
    for name in ("write", "peek"):  # also of a tool that may start at once
        text = encode(dialect, [(name, ARGUMENTS)]).partition(CLOSERS[dialect])[0]
        for pieces in every_cutting(text):
            assert [call.name for call in WAYS[way](dialect, pieces, ending=STOP).calls] == [name]
            outcome = WAYS[way](dialect, pieces, ending=ending)
            assert [each.reason for each in outcome.rejected] == [Reason.TRUNCATED]
            assert "output limit" in outcome.rejected[0].detail
            assert (outcome.calls, outcome.finish_reason) == ((), "length")


@pytest.mark.parametrize("ending", LIMITS, ids=["told", "hidden", "told late"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dialect", RESTING)
def test_a_whole_call_before_a_cut_one_runs(*, dialect: str, way: str, ending: list[Delta]) -> None:
    both = encode(dialect, [("write", ARGUMENTS), ("write", {"path": "d", "content": "e"})])
    cut = both.rpartition(CLOSERS[dialect])[0]
    outcome = WAYS[way](dialect, cut, ending=ending)
    assert [dict(call.arguments) for call in outcome.calls] == [ARGUMENTS]
    assert [each.reason for each in outcome.rejected] == [Reason.TRUNCATED]


HERMES = '<tool_call>\n{"name": "peek", "arguments": {"path": "a"}}\n</tool_call>'
GEMMA = "call:write{path:a}"
# Calls that are meant only if the text is over, as it is after a good end.
MEANT_IF_OVER = {
    "in reasoning without an end": f"<think>{HERMES}",
    "in a fence that is the whole answer": f"```\n{HERMES}\n```",
    "whose name comes last": '<think><tool_call>{"arguments": {"path": "a"}, "name": "peek"}',
    "a Python call that is the whole answer": 'write(path="a")',
    "with words that have no quotes": GEMMA,
}


@pytest.mark.parametrize("ending", LIMITS, ids=["told", "hidden", "told late"])
@pytest.mark.parametrize("text", MEANT_IF_OVER.values(), ids=MEANT_IF_OVER)
def test_a_call_that_only_the_end_of_the_text_shows_is_a_guess(
    text: str, ending: list[Delta]
) -> None:
    assert len(rescued("", text, ending=STOP).calls) == 1
    assert rescued("", text, ending=ending).calls == ()


@pytest.mark.parametrize("ending", LIMITS, ids=["told", "hidden", "told late"])
def test_so_is_one_with_which_the_reasoning_ends(ending: list[Delta]) -> None:
    def think(ending: Any) -> Outcome:
        assembler = RescuingAssembler([WRITE, PEEK])
        deltas = [Reasoning(f"Hm.\n{HERMES}"), *ending]
        events = [event for each in deltas for event in assembler.feed(each)]
        return collect([*events, *assembler.end()])

    assert [call.name for call in think(STOP).calls] == ["peek"]
    assert think(ending).calls == ()
