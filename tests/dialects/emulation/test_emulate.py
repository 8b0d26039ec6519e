"""Requests with tools become requests without."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulated_requests import LENGTH, NOW, PROMPTED, STOP, WEATHER, ask, calls_of, says, understand
from example_counts import ends, examples
from gbnf_matcher import allows
from recut import cut_text
from wholecall.assembly.assembler import Assembler
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulate import Constraint, emulate
from wholecall.dialects.emulation.prompt import Prompt, write_prompt
from wholecall.dialects.rescue import encode
from wholecall.errors import InadmissibleTools, UnreadableRequest, UnusableDialect
from wholecall.events import Start, Text, collect
from wholecall.messages import (
    CallResult,
    Choice,
    Message,
    Mode,
    Native,
    OutputSchema,
    PastCall,
    Request,
    Result,
    Role,
    Special,
    ToolSpec,
)

SYSTEM, USER, ASSISTANT, TOOL = Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL
BOTH = {"weather": WEATHER, "now": NOW}
REQUIRED = Choice(Mode.REQUIRED)
NONE = Choice(Mode.NONE)
SECTION = write_prompt(DIALECTS["hermes"], BOTH)
LONG = ask(
    says(SYSTEM, "Be brief."),
    says(USER, "Weather?"),
    says(ASSISTANT, "Hm.", PastCall(id="1", name="weather", arguments={"city": "Oslo"})),
    says(TOOL, CallResult(call_id="1", result=Result((Text("rain"),)))),
    says(USER, "And now?"),
)


def test_the_tools_go_into_the_system_message() -> None:
    emulated = emulate(LONG, "hermes")
    system, *others = emulated.request.messages
    assert system == says(SYSTEM, f"{SECTION}\n\nBe brief.")
    assert [message.role for message in others] == [USER, ASSISTANT, USER]
    assert (emulated.request.tools, emulated.request.choice) == ((), Choice())
    assert (emulated.dialect.name, dict(emulated.offer), emulated.choice) == (
        "hermes",
        BOTH,
        Choice(),
    )
    assert 100 < emulated.added_tokens < 250


SYSTEMS: list[tuple[str, list[Message], Choice, list[Message]]] = [
    ("none yet", [says(USER, "Hi")], Choice(), [says(SYSTEM, SECTION), says(USER, "Hi")]),
    ("no messages at all", [], Choice(), [says(SYSTEM, SECTION)]),
    ("a text", [says(SYSTEM, "A", "B")], Choice(), [says(SYSTEM, f"{SECTION}\n\nA", "B")]),
    ("an empty one", [says(SYSTEM)], Choice(), [says(SYSTEM, SECTION)]),
    ("what only one protocol knows", [says(SYSTEM, Native("x", 1))], Choice(),
     [says(SYSTEM, SECTION, Native("x", 1))]),
    ("a section from before", [says(SYSTEM, SECTION.replace("now", "later") + "\n\nA")], Choice(),
     [says(SYSTEM, f"{SECTION}\n\nA")]),
    ("no tool may be called", [says(SYSTEM, "A"), says(USER, "Hi")], NONE,
     [says(SYSTEM, "A"), says(USER, "Hi")]),
    ("nor without a system message", [says(USER, "Hi")], NONE, [says(USER, "Hi")]),
    ("a section that is void now", [says(SYSTEM, f"{SECTION}\n\nA")], NONE, [says(SYSTEM, "A")]),
    ("nothing but that", [says(SYSTEM, SECTION), says(USER, "Hi")], NONE, [says(USER, "Hi")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "choice", "after"), [row[1:] for row in SYSTEMS], ids=[row[0] for row in SYSTEMS]
)
def test_every_system_message(
    *, before: list[Message], choice: Choice, after: list[Message]
) -> None:
    request = replace(ask(choice=choice), messages=tuple(before))
    assert emulate(request, "hermes").request.messages == tuple(after)


OFFERS: list[tuple[Choice, list[str]]] = [
    (Choice(), ["now", "weather"]),
    (REQUIRED, ["now", "weather"]),
    (Choice(Mode.REQUIRED, ("now",)), ["now"]),
    (Choice(Mode.AUTO, ("weather",)), ["weather"]),
    (Choice(specials=(Special("shell"),)), []),
    (NONE, []),
]


@pytest.mark.parametrize(("choice", "names"), OFFERS)
def test_only_what_may_be_called_is_written(choice: Choice, names: list[str]) -> None:
    emulated = emulate(ask(choice=choice), "hermes")
    text = "".join(message.text for message in emulated.request.messages)
    assert [name for name in ("now", "weather") if f'{{"name":"{name}"' in text] == names
    assert sorted(emulated.offer) == names
    assert (emulated.added_tokens > 0) is bool(names)


def test_tools_that_the_upstream_runs_stay_with_it() -> None:
    shell = Native("openai-responses", {"type": "shell"})
    only_shell = Choice(REQUIRED.mode, (), True, (Special("shell"),))
    request = replace(ask(), native_tools=(shell,))
    assert emulate(request, "hermes").request.native_tools == (shell,)
    assert emulate(replace(request, choice=NONE), "hermes").request.native_tools == ()
    assert emulate(replace(request, choice=only_shell), "hermes").request.choice == only_shell


def test_a_request_without_tools_stays_as_it_is() -> None:
    request = ask(says(SYSTEM, f"{SECTION}\n\nA"), says(USER, "Hi"), tools=[])
    assert emulate(request, "hermes").request == request


def test_words_of_the_user_s_own() -> None:
    prompt = Prompt("Tools:\n{tools}\nSo:\n{example}\n{rules}")
    [system, _] = emulate(ask(), "hermes", prompt=prompt).request.messages
    assert system.text.startswith("<tool_instructions>\nTools:\n{")


def test_the_form_of_the_final_answer_is_said_in_words() -> None:
    output = OutputSchema(schema={"type": "object"})
    request = replace(ask(), output=output)
    emulated = emulate(request, "hermes").request
    assert emulated.output is None
    assert 'must be JSON that fits this schema: {"type": "object"}' in emulated.messages[0].text
    assert emulate(replace(request, choice=NONE), "hermes").request.output == output


def test_a_dialect_may_be_a_value() -> None:
    assert emulate(ask(), DIALECTS["hermes"]) == emulate(ask(), "hermes")


REFUSED: list[tuple[str, Any, str]] = [
    ("klingon", None, "there is no dialect 'klingon'"),
    ("auto", None, "nothing is written in the dialect 'auto'"),
    ("hermes", "json_schema", "'json_schema' constrains answers in the dialect 'constrained'"),
    ("hermes", "grammar", "not in 'hermes'"),
    ("constrained", "force", "cannot be constrained by 'force'; there are 'json_schema', "),
]


@pytest.mark.parametrize(("dialect", "constrain", "why"), REFUSED)
def test_what_cannot_be_emulated_is_refused(*, dialect: str, constrain: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r"dialect|constrained") as refused:
        emulate(ask(), dialect, constrain=constrain)
    assert why in str(refused.value)
    assert isinstance(refused.value, UnusableDialect) or constrain == "force"


# ── Constraints ─────────────────────────────────────────────────────────────────────


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


NO_SCHEMAS: list[dict[str, Any]] = [
    {"type": {"a": 1}},
    {"enum": 5},
    {"allOf": 5},
    {"properties": 5},
    {"$ref": 5},
    {"type": "array", "items": {}, "minItems": "x"},
    {"properties": {"a": {}}, "required": 5},
    deep(200),
]


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=[repr(each)[:40] for each in NO_SCHEMAS])
@pytest.mark.parametrize("constrain", ["grammar", "json_schema", None])
def test_a_form_of_the_answer_that_cannot_be_read_is_the_clients_mistake(
    schema: dict[str, Any], constrain: Constraint | None
) -> None:
    request = replace(ask(), output=OutputSchema(schema=schema))
    with pytest.raises(UnreadableRequest, match="the form of the final answer"):
        emulate(request, "constrained", constrain=constrain)


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=[repr(each)[:40] for each in NO_SCHEMAS])
@pytest.mark.parametrize("constrain", ["grammar", "json_schema", None])
def test_so_is_a_tool_whose_schema_cannot_be_read(
    schema: dict[str, Any], constrain: Constraint | None
) -> None:
    request = replace(ask(), tools=(WEATHER, ToolSpec("broken", schema)))
    with pytest.raises(InadmissibleTools, match='tool "broken"'):
        emulate(request, "constrained", constrain=constrain)


def test_a_form_in_another_draft_is_written_in_the_usual_one() -> None:
    form = {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": "2"}
    request = replace(ask(), output=OutputSchema(schema=form))
    output = emulate(request, "constrained", constrain="json_schema").request.output
    assert output is not None
    usual = {"type": "array", "items": {"type": "string"}, "maxItems": 2}
    assert output.schema["anyOf"][1]["properties"]["reply"] == usual


def test_the_answer_is_constrained_by_a_schema() -> None:
    request = replace(ask(), output=OutputSchema(schema={"type": "boolean"}))
    output = emulate(request, "constrained", constrain="json_schema").request.output
    assert output is not None
    calls, reply = output.schema["anyOf"]
    assert (list(calls["properties"]), reply["properties"]) == (
        ["calls"],
        {"reply": {"type": "boolean"}},
    )


@pytest.mark.parametrize(
    ("protocol", "kept"),
    [("openai-chat", ["seed", "grammar", "logit_bias"]), ("anthropic", ["grammar", "logit_bias"])],
)
def test_the_answer_is_constrained_by_a_grammar(protocol: str, kept: list[str]) -> None:
    request = replace(ask(), rest=Native(protocol, {"seed": 1}))
    rest = emulate(request, "constrained", constrain="grammar").request.rest
    assert rest is not None
    assert (rest.protocol, list(rest.value)) == ("openai-chat", kept)
    assert rest.value["grammar"].startswith("root ::= ")
    bare = emulate(ask(), "constrained", constrain="grammar").request.rest
    assert bare is not None
    assert list(bare.value) == ["grammar", "logit_bias"]


def test_a_reply_is_favoured_before_the_first_call_and_where_one_is_allowed() -> None:
    def favours(request: Request) -> bool:
        rest = emulate(request, "constrained", constrain="grammar").request.rest
        assert rest is not None
        return bool(rest.value.get("logit_bias") == [["reply", 1.5]])

    assert favours(ask())
    assert favours(LONG)
    assert not favours(replace(LONG, messages=LONG.messages[:-1]))
    assert not favours(ask(choice=REQUIRED))
    theirs = Native("openai-chat", {"logit_bias": {"7": 1}})
    assert not favours(replace(ask(), rest=theirs))


def test_the_answer_is_begun_where_a_call_is_forced() -> None:
    emulated = emulate(ask(choice=REQUIRED), "hermes", constrain="prefill")
    assert emulated.request.messages[-1] == says(ASSISTANT, '<tool_call>\n{"name":')
    assert emulated.beginning == '<tool_call>\n{"name":'
    again = replace(emulated.request, tools=(WEATHER, NOW), choice=REQUIRED)
    assert emulate(again, "hermes", constrain="prefill").request == emulated.request
    assert emulate(again, "hermes", constrain="prefill").beginning == emulated.beginning


def test_an_answer_is_not_begun_twice_nor_where_nothing_is_forced() -> None:
    free = emulate(ask(), "hermes", constrain="prefill")
    assert (free, free.beginning) == (emulate(ask(), "hermes"), "")
    begun = ask(says(USER, "Hi"), says(ASSISTANT, "Well, "), choice=REQUIRED)
    assert emulate(begun, "hermes", constrain="prefill") == emulate(begun, "hermes")


@pytest.mark.parametrize("constrain", ["json_schema", "grammar", "prefill"])
def test_without_tools_nothing_is_constrained(constrain: Any) -> None:
    request = ask(choice=NONE)
    plain = emulate(request, "constrained")
    assert emulate(request, "constrained", constrain=constrain) == plain
    assert (plain.request.output, plain.request.rest) == (None, None)


# what holds, the dialect, the constraint, what is written, what is shown of it, rejected calls
SILENT: list[tuple[str, str, Constraint | None, str, str, list[str]]] = [
    (
        "a call in an announced dialect is rejected",
        "hermes",
        None,
        'Well.\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        "Well.",
        ["now"],
    ),
    ("words are shown", "hermes", None, "It is late.", "It is late.", []),
    ("a reply is shown", "constrained", "json_schema", '{"reply": "Late."}', "Late.", []),
    ("a reply is shown", "constrained", "grammar", '{"reply": "Late."}', "Late.", []),
    (
        "a call is rejected where it could not be written",
        "constrained",
        "grammar",
        '{"calls": [{"name": "now", "arguments": {}}]}',
        "",
        ["now"],
    ),
]


@pytest.mark.parametrize(
    ("dialect", "constrain", "text", "shown", "rejected"),
    [row[1:] for row in SILENT],
    ids=[row[0] for row in SILENT],
)
def test_where_no_tool_may_be_called_any_more_calls_are_no_text(
    *, dialect: str, constrain: Constraint | None, text: str, shown: str, rejected: list[str]
) -> None:
    emulated = emulate(ask(choice=NONE), dialect, constrain=constrain, silent=True)
    for pieces in ([text], list(text), *(cut_text(text, seed) for seed in range(4))):
        outcome = understand(emulated, pieces)
        assert (outcome.text, outcome.calls) == (shown, ())
        assert [each.name for each in outcome.rejected] == rejected


def test_where_no_tool_may_be_called_any_more_only_a_reply_can_be_written() -> None:
    form = OutputSchema(schema={"type": "boolean"})
    request = replace(ask(choice=NONE), output=form)
    by_schema = emulate(request, "constrained", constrain="json_schema", silent=True)
    assert by_schema.request.output is not None
    assert by_schema.request.output.schema["properties"] == {"reply": {"type": "boolean"}}
    by_grammar = emulate(request, "constrained", constrain="grammar", silent=True)
    assert by_grammar.request.output is None
    assert by_grammar.request.rest is not None
    assert "calls" not in by_grammar.request.rest.value["grammar"]
    unconstrained = emulate(request, "hermes", silent=True)
    assert unconstrained.request.output == form


@pytest.mark.parametrize(
    ("dialect", "constrain", "form"), [("constrained", "grammar", True), ("hermes", None, False)]
)
def test_where_no_tool_may_be_called_any_more_the_prompt_asks_for_the_answer(
    *, dialect: str, constrain: Constraint | None, form: bool
) -> None:
    emulated = emulate(ask(choice=NONE), dialect, constrain=constrain, silent=True)
    assert "Answer the question now" in emulated.section
    assert ('{"reply"' in emulated.section) is form
    assert emulated.request.messages[0].text.startswith(emulated.section)
    again = emulate(emulated.request, dialect, constrain=constrain)
    assert again.request.messages == emulated.request.messages
    if emulated.request.rest is not None:
        grammar = emulated.request.rest.value["grammar"]
        assert allows(grammar, '{"reply": "It is mild."}')
        assert not allows(grammar, '{"reply": "{\\"calls\\": []}"}')


@pytest.mark.parametrize("choice", [Choice(), REQUIRED])
def test_where_tools_may_be_called_silence_changes_nothing(choice: Choice) -> None:
    request = ask(choice=choice)
    assert emulate(request, "hermes", silent=True) == emulate(request, "hermes")


# ── Readers ─────────────────────────────────────────────────────────────────────────


def test_the_answer_is_read_in_the_upstream_s_protocol() -> None:
    emulated = emulate(ask(), "hermes")
    text = encode("hermes", [("weather", {"city": "Oslo"})])
    reader = emulated.reader("anthropic")
    body = {
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "role": "assistant",
        "type": "message",
    }
    outcome = collect([*reader.feed_response(body), *reader.end()])
    assert calls_of(outcome) == [("weather", {"city": "Oslo"})]


def test_the_options_of_the_assembler_can_be_set() -> None:
    made: list[Assembler] = []

    def within(tools: Any) -> Assembler:
        made.append(Assembler(tools))
        return made[-1]

    reader = emulate(ask(), "hermes").reader("openai-chat", within=within)
    choices = [{"index": index, "delta": {"content": "a"}} for index in (0, 1)]
    reader.feed({"choices": choices})
    assert len(made) == 2


# ── Laws ────────────────────────────────────────────────────────────────────────────

NAMES = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HISTORIES = st.lists(
    st.one_of(
        st.builds(lambda text: says(USER, text), VALUES),
        st.builds(lambda text: says(SYSTEM, text), VALUES),
        st.builds(
            lambda id, text: says(
                ASSISTANT, text, PastCall(id=id, name="now", arguments={"a": text})
            ),
            NAMES,
            VALUES,
        ),
        st.builds(
            lambda id, text: says(TOOL, CallResult(call_id=id, result=Result((Text(text),)))),
            NAMES,
            VALUES,
        ),
    ),
    max_size=6,
)
CHOICES = st.sampled_from(
    [Choice(), REQUIRED, NONE, Choice(parallel=False), Choice(Mode.REQUIRED, ("now",))]
)
DIALECT = st.sampled_from(PROMPTED)


def test_an_empty_system_message_stays_where_nothing_is_written_into_it() -> None:
    messages = (says(SYSTEM, ""), says(SYSTEM, ""))
    request = replace(ask(choice=NONE), messages=messages)
    assert emulate(request, "hermes").request.messages == messages


@given(messages=HISTORIES, choice=CHOICES, dialect=DIALECT)
def test_the_caller_s_request_is_untouched_and_twice_is_once(
    *, messages: list[Message], choice: Choice, dialect: str
) -> None:
    request = replace(ask(choice=choice), messages=tuple(messages))
    before = copy.deepcopy(request)
    once = emulate(request, dialect)
    assert request == before
    assert emulate(once.request, dialect).request == once.request
    again = emulate(replace(once.request, tools=request.tools, choice=choice), dialect)
    assert again == once


@given(dialect=DIALECT, seed=st.integers(0, 99))
def test_the_same_tools_give_the_same_text_in_any_order(dialect: str, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - an order is no secret

    def shuffle(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: shuffle(value[key]) for key in dice.sample(list(value), len(value))}

    tools = [replace(tool, parameters=shuffle(tool.parameters)) for tool in (WEATHER, NOW)]
    dice.shuffle(tools)
    assert emulate(ask(tools=tools), dialect).request == emulate(ask(), dialect).request


def tools_for(arguments: dict[str, Any]) -> list[ToolSpec]:
    types = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
    properties = {key: {"type": types[type(value)]} for key, value in arguments.items()}
    return [ToolSpec("find_it", {"type": "object", "properties": properties})]


ARGUMENTS = st.dictionaries(
    NAMES.filter(lambda name: name not in {"item", "name"}),
    VALUES | st.integers(-(2**60), 2**60) | st.booleans() | st.lists(VALUES, max_size=2),
    max_size=3,
)


@pytest.mark.parametrize("dialect", PROMPTED)
@settings(max_examples=examples(12))
@given(arguments=ARGUMENTS, seed=st.integers(0, 9))
def test_what_a_model_writes_comes_back(
    *, dialect: str, arguments: dict[str, Any], seed: int
) -> None:
    tools = tools_for(arguments)
    try:
        text = encode(dialect, [("find_it", arguments)])
    except ValueError:
        return  # the dialect cannot carry it, and says so
    pieces = cut_text(text, seed or None)
    outcome = understand(emulate(ask(tools=tools), dialect), pieces)
    assert calls_of(outcome) == [("find_it", arguments)]
    assert (outcome.rejected, outcome.text) == ((), "")
    silent = understand(emulate(ask(tools=tools, choice=NONE), dialect), pieces)
    assert (silent.calls, silent.rejected, silent.text) == ((), (), text)


@pytest.mark.parametrize("dialect", PROMPTED)
def test_a_prefix_of_an_answer_runs_nothing_new(dialect: str) -> None:
    whole: dict[str, Any] = {"city": "Oslo", "days": 2}
    text = encode(dialect, [("weather", whole)])
    emulated = emulate(ask(tools=[replace(WEATHER, start=Start.CLOSED), NOW]), dialect)
    for count, end in enumerate(ends(len(text))):
        ending = (STOP, LENGTH, ())[count % 3]
        calls = understand(emulated, text[:end], ending=ending).calls
        assert [dict(call.arguments) for call in calls] in ([], [whole])
