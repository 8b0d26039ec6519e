"""Hostile texts: the work is counted, not timed.

What is counted are the steps of the engine: how often a reader looks for a mark. A text
twice as long may need twice as many, and a few more.
"""

from __future__ import annotations

import pytest

from wholecall.dialects.char_stream import Markers
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.engine import Engine
from wholecall.messages import read_offer

OFFER = read_offer(
    [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}]
)
SEEDS = {
    "hermes": ["<tool_call>", '<tool_call>{"arguments":["', "<think><tool_call>", "```\n", "<"],
    "qwen3_xml": [
        *("<function=f>", "<function=f><parameter=a>", "</parameter>", "<tool_call>\n"),
        *("<parameter=b>", "<parameter=b></parameter>", "<function=f></function>", "<function="),
    ],
    "kimi_k2": ["<|tool_call_begin|>", "<|tool_call_begin|>f<|tool_call_argument_begin|>"],
    "pythonic": ["[", "[f(a=", "[f(a='", "[f(a=["],
    "gemma4": ["<|tool_call>call:f{a:", "<|tool_call>call:f{a:[", "<|channel>"],
    "minimax_m3": ["]<]minimax[>[", "]<]minimax[>[<tool_call>", "]<]minimax[>[<a>"],
    "yaml_xml": ["<f>", "<f>\na: ", "<f>\na:\n- - ", "<f>\na: [", "<f>\na: |\n  x\n", "\n ", "# "],
    "morph_xml": ["<f>", "<f><a>", "</a>", "</f>"],
    "hf_response_template": ["<tool_call><function=f>", "<tool_call><function=f>\na: x\n"],
    "hunyuan_v3": ["<tool_calls:", "<tool_calls:x><tool_call:x>f<arg_key:x>a</arg_key:x>", ":x"],
    "k2_horizon": ["<ifm|tool_call>f", "<ifm|arg_type>", "<ifm|tool_calls>{"],
    "iquest_coder_v2": ["<iquestcoder_tool_call>f<arg_key>a</arg_key><arg_value>"],
    "gigachat35": ["<\uff5cGCML\uff5cinvoke ", "<\uff5cGCML\uff5ctool_calls>{"],
    "solar_open2": ["<|tool_call:start|>f\n", "<|tool_arg:start|>a<|tool_arg:value|>"],
    "plamo3": ["<|plamo:begin_tool_name:plamo|>f", "<|plamo:begin_tool_request:plamo|>"],
    "sarashina": ["<|tool_calls|>[{'name': '", "<|tool_calls|>[", "<|tool_calls|>"],
    "functionary_v2": ["<|recipient|>f\n<|content|>{", "<|from|>assistant\n<|recipient|>"],
    "ui_tars": ["\nAction: f(a='", "\nAction: ", "\nAction: f()\n"],
    "muse_atem": ["to=self<|message|>", "<|start|>assistant to=f<|message|>", "<atem:invoke "],
    "kimi_k3": ["<|open|>call ", '<|open|>call tool="f"<|sep|>', "<|open|>tools<|sep|>"],
    "auto": [
        *("[f()] ", "[f()] [g", '[Calling tool="f"]', "<invoke>", "<|tool_call_begin|>{"),
        *("<tool_call>", "<f>", "<f><a>", '{"tool_calls":[', "<think>", "`", " "),
    ],
}
BEGINNINGS = [
    "",
    "<think>",
    "x ",
    "<tool_call><function=f><parameter=a>",
    '<tool_call>{"name": "f", "arguments": {"a": "',
]


class Count:
    """Characters that the engine's scanners were given to look at."""

    def __init__(self) -> None:
        self.characters = 0


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    counter = Count()
    search = Markers.search

    # It stands in for a method, whose `self` does not count.
    def counted(  # noqa: PLR0917
        self: Markers, text: str, at: int, *, ended: bool
    ) -> object:
        found = search(self, text, at, ended=ended)
        counter.characters += (found.end() if found else len(text)) - at
        return found

    monkeypatch.setattr(Markers, "search", counted)
    return counter


def work(count: Count, dialect: str, *, text: str) -> int:
    count.characters = 0
    engine = Engine(DIALECTS[dialect], OFFER)
    for at in range(0, len(text), 7):
        engine.feed(text[at : at + 7])
    engine.end()
    return count.characters


@pytest.mark.parametrize(
    ("dialect", "seed"), [(name, seed) for name, seeds in SEEDS.items() for seed in seeds]
)
def test_work_is_linear(count: Count, dialect: str, *, seed: str) -> None:
    for beginning in BEGINNINGS:
        small = work(count, dialect, text=beginning + seed * (1_000 // len(seed)))
        large = work(count, dialect, text=beginning + seed * (4_000 // len(seed)))
        assert large <= 4.5 * small + 2_000, beginning


def test_sixty_kilobytes_of_openers(count: Count) -> None:
    assert work(count, "auto", text="<tool_call> " * 5_000) < 60_000 * 100


def test_much_text_without_a_closer_is_never_held() -> None:
    engine = Engine(DIALECTS["qwen3_xml"], OFFER)
    engine.feed("<function=f><parameter=a>")
    given = sum(len(engine.feed("lorem ipsum ")) for _ in range(20_000))
    assert given >= 20_000
    assert len(engine._source.text) < 100
