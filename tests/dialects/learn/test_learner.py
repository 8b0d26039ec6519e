"""Dialects learned from chat templates of the well-known kinds."""

# ruff: noqa: E501 - a row is one line, and its template stands there as it is
# ruff: noqa: RUF001 - the full-width bars are DeepSeek's own

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from wholecall.dialect_files import dump_dialect, family_of, read_dialect, render_one
from wholecall.dialects.learn.call_shapes import CALLS, MANNERS, TOOLS, Manner, Probe, conversations
from wholecall.dialects.learn.learner import learn
from wholecall.dialects.rescue import encode, encode_output, parse_text
from wholecall.errors import UnusableDialect

TEMPLATES = Path(__file__).parents[1] / "templates"


def renderings(source: str, manner: Manner) -> dict[Probe, str]:
    """What a template writes of all probes, without those that it refuses."""
    written = {}
    for probe, messages in conversations(manner).items():
        names: dict[str, Any] = {"messages": messages, "tools": TOOLS, "bos_token": "<s>"}
        names |= {"eos_token": "</s>", "add_generation_prompt": probe is Probe.PROMPT}
        text = render_one(source, names)["text"]
        if isinstance(text, str):
            written[probe] = text
    return written


def learn_any(source: str, name: str = "mine") -> Any:
    """What is learned from the first manner that works."""
    for manner in MANNERS[:-1]:
        with suppress(UnusableDialect):
            return learn(renderings(source, manner), name=name)
    return learn(renderings(source, MANNERS[-1]), name=name)


# the template, the family, what it is known as, one mark of it, a part of the result's form
LEARNED = [
    ("hermes", "json", "hermes", "<tool_call>", "<tool_response>\n{output}\n</tool_response>"),
    ("llama3", "json", "llama3_json", "", ""),
    ("mistral_list", "json", "", "[TOOL_CALLS]", '{"content": {output_json}, "call_id": "{id}"}'),
    ("mistral_args", "headed", "mistral", "[TOOL_CALLS]", "[TOOL_RESULTS]{output}[/TOOL_RESULTS]"),
    ("phi4_mini", "json", "phi4_functools", "functools", ""),
    ("granite3", "json", "", "<|tool_call|>", ""),
    ("cohere", "json", "cohere_cmd3", "<|START_ACTION|>", ""),
    ("apertus", "json", "apertus", "<|tools_prefix|>", ""),
    ("deepseek_v3", "headed", "deepseek_v3", "<｜tool▁calls▁begin｜>", "<｜tool▁output▁begin｜>"),
    ("deepseek_v31", "headed", "deepseek_v31", "<｜tool▁calls▁begin｜>", "<｜tool▁output▁begin｜>"),
    ("kimi_k2", "headed", "kimi_k2", "<|tool_calls_section_begin|>", ""),
    ("gpt_oss", "headed", "", "<|channel|>commentary to=functions.", ""),
    ("qwen3_coder", "tags", "qwen3_xml", "<tool_call>", "<tool_response>"),
    ("glm45", "tags", "glm45", "<tool_call>", "<tool_response>"),
    ("minimax_m2", "tags", "minimax_m2", "<minimax:tool_call>", ""),
    ("deepseek_v32", "tags", "deepseek_v32_dsml", "<｜DSML｜function_calls>", ""),
    ("gemma4", "gemma", "gemma4", "<|tool_call>call:", '{name}{output:<|"|>{output}<|"|>}'),
    ("lfm2", "python", "lfm2", "<|tool_call_start|>", ""),
    ("pythonic", "python", "pythonic", "[", ""),
]


@pytest.mark.parametrize(
    ("template", "family", "known_as", "mark", "result"), LEARNED, ids=[row[0] for row in LEARNED]
)
def test_a_template_teaches_its_dialect(
    template: str, family: str, *, known_as: str, mark: str, result: str
) -> None:
    learned = learn_any((TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8"), template)
    dialect = learned.dialect
    grammars = [*(each.grammar for each in dialect.written), *dialect.bare]
    assert dialect.name == template
    assert [family_of(each) for each in grammars] == [family]
    assert learned.known_as == known_as
    assert not mark or mark in dialect.written[0].openers
    assert result in dialect.template.result
    assert "zq" not in str(dump_dialect(dialect))


@pytest.mark.parametrize("template", [row[0] for row in LEARNED])
def test_what_was_learned_carries_calls(template: str) -> None:
    learned = learn_any((TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8"))
    dialect = read_dialect(dump_dialect(learned.dialect))
    assert dialect == learned.dialect
    calls = list(CALLS[:1]) if learned.single else list(CALLS)
    for text in (encode(dialect, calls), learned.rendered, f"so\n{learned.rendered}"):
        outcome = parse_text(dialect, list(text), tools=TOOLS)  # type: ignore[arg-type]  # JSON
        if text.startswith("so") and dialect.bare:
            continue  # a bare call stands where the answer begins
        assert [(call.name, dict(call.arguments)) for call in outcome.calls] == calls
    for end in range(len(learned.rendered)):
        outcome = parse_text(dialect, learned.rendered[:end], tools=TOOLS)  # type: ignore[arg-type]  # JSON
        assert len(outcome.calls) <= len(calls)
        assert all((call.name, dict(call.arguments)) in calls for call in outcome.calls)
    assert "Tea" in encode_output(dialect, "search", output="Tea", id="1")


def test_a_template_for_one_call_at_a_time() -> None:
    learned = learn_any((TEMPLATES / "llama3.jinja").read_text(encoding="utf-8"))
    assert learned.single


REASONS = {
    "hermes": ("<think>", ("</think>",), True),
    "mistral_args": ("[THINK]", ("[/THINK]",), False),
    "gemma4": ("<|channel>thought", ("<channel|>",), False),
    "gpt_oss": ("<|channel|>analysis<|message|>", ("<|end|>",), False),
    "minimax_m2": ("<think>", ("</think>",), True),
    "glm45": ("<think>", ("</think>",), True),
    "lfm2": ("<think>", ("</think>",), True),
}


@pytest.mark.parametrize("template", REASONS)
def test_reasoning_is_learned_too(template: str) -> None:
    learned = learn_any((TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8"))
    (channel,) = learned.dialect.reasoning
    assert (channel.open, channel.close, channel.prompted) == REASONS[template]


BEGIN = "{% for message in messages %}<|{{ message.role }}|>{{ message.content or '' }}"
EACH = "{% for call in message.tool_calls or [] %}"
END = "{% endfor %}<|end|>{% endfor %}"


def template_of(call: str) -> str:
    """A template that writes each call in this way: N is its name, A its arguments."""
    call = call.replace("N", "{{ call.function.name }}").replace(
        "A", "{{ call.function.arguments | tojson }}"
    )
    return BEGIN + EACH + call + END


ITEMS = "{% for key, value in call.function.arguments | items %}"
COMMA = "{{ ',' if not loop.last }}{% endfor %}"
GEMMA = "N{{ '{' }}" + ITEMS + "{{ key }}:`{{ value }}`" + COMMA + "{{ '}' }}"
PYTHON = "N(" + ITEMS + "{{ key }}='{{ value }}'" + COMMA + ")"
TAGS = ITEMS + "<p={{ key }}>{{ value }}</p>{% endfor %}"
ONCE = "{% if (messages[-1].tool_calls or []) | length > 1 %}{{ raise_exception('no') }}{% endif %}"

# what holds, the template, what is said of it
REFUSED = [
    ("no calls", BEGIN + "<|end|>{% endfor %}", "does not write the calls of an answer"),
    ("a part of an id", BEGIN + EACH + "<c>{{ call.id[:3] }}</c>" + END, "does not write the calls"),
    ("no words", "{% for message in messages %}{{ message.role }}{% endfor %}", "the words of an"),
    ("no text at all", "{{ raise_exception('no') }}", "does not take an answer in words"),
    ("no calls taken", "{% if messages[-1].tool_calls %}{{ raise_exception('no') }}{% endif %}" + BEGIN + "{% endfor %}", "does not take an answer that calls a tool"),
    ("prose", template_of("N was called"), "does not write 'zqplace' where a call stands"),
    ("a name without a mark", template_of("NA"), "nothing marks where a call begins|of its own"),
    ("keys in lines", template_of("<c>N" + ITEMS + "\n{{ key }} is {{ value }}{% endfor %}</c>"), "a form of its own: '<c>zqfind"),
    ("literals without a mark", template_of(GEMMA), "of its own"),
    ("calls without a mark", template_of(PYTHON), "of its own"),
    ("tags without tags around", template_of("N" + TAGS + "."), "no tags stand around|of its own"),
    ("values without an end", template_of("<c>N" + ITEMS + "<p={{ key }}>{{ value }}{% endfor %}</c>"), "of its own"),
    ("tags that differ", template_of("<c>N" + ITEMS + "<p={{ key }}>{{ loop.index }}{{ value }}</p>{% endfor %}</c>"), "of its own"),
    ("what is not read back", template_of("<c>N " + TAGS + "<d></c>"), "does not read"),
    ("an object that is none", template_of("<c>N {{ '{' }}A</c>"), "of its own"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_learned_says_why(source: str, why: str) -> None:
    with pytest.raises(UnusableDialect, match=why):
        learn(renderings(source, MANNERS[0]), name="mine")


def test_an_id_in_the_place_of_the_name_is_seen() -> None:
    source = (TEMPLATES / "kimi_k2.jinja").read_text(encoding="utf-8")
    with pytest.raises(UnusableDialect, match="writes the id of a call in the place of its name"):
        learn(renderings(source, MANNERS[0]), name="mine")


SHAPES = [
    ("a wrapper", '<c>{"type": "function", "function": {"name": "N", "arguments": A}}</c>'),
    ("other keys", '<c>{"what": "N", "how": A}</c>'),
    ("an id", '<c>{"id": "{{ call.id }}", "name": "N", "arguments": A}</c>'),
    ("lines of objects", '{{ "<cs>" if loop.first }}{"name": "N", "arguments": A}\n{{ "</cs>" if loop.last }}'),
    ("a header in an attribute", '<c name="N">A</c>'),
    ("a name up to a brace", "<c>N A</c>"),
    ("pairs in one line", "<c>N" + ITEMS + "<k>{{ key }}</k><v>{{ value }}</v>{% endfor %}</c>"),
    ("literals", "<c>" + GEMMA + "</c>"),
    ("calls in lines", '{{ "<c>" if loop.first }}\n' + PYTHON + '\n{{ "</c>" if loop.last }}'),
]  # fmt: skip


@pytest.mark.parametrize("call", [row[1] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_other_shapes(call: str) -> None:
    learned = learn_any(template_of(call))
    assert not learned.known_as
    assert not learned.single
    assert learn_any(ONCE + template_of(call)).single


def test_results_that_a_template_does_not_take_are_told_as_by_default() -> None:
    refuses = "{% if messages[-1].role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
    learned = learn_any(refuses + template_of('<c>{"name": "N", "arguments": A}</c>'))
    assert "<tool_response>" in learned.dialect.template.result


def test_arguments_in_text_are_text_in_an_object() -> None:
    call = '<c>{"name": "N", "arguments": {{ call.function.arguments | string | tojson }}}</c>'
    learned = learn(renderings(template_of(call), Manner(as_text=True)), name="mine")
    assert learned.dialect.template is not None
    assert learned.dialect.template.call == '<c>{"name": {name_json}, "arguments": {arguments}}</c>'
