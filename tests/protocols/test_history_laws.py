"""The laws of a mended history, for every protocol and for whatever comes in."""

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wholecall.protocols.anthropic.history import ANTHROPIC
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import mend, repair_history
from wholecall.protocols.openai_chat.history import DEEPSEEK, GEMINI, MISTRAL, OPENAI_CHAT
from wholecall.protocols.openai_responses.history import OPENAI_RESPONSES

# ── Healthy conversations ───────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Said:
    role: str
    text: str


@dataclass(frozen=True)
class Asked:
    text: str
    calls: tuple[tuple[str, str], ...]
    """The arguments and the result of each call."""
    aside: str = ""
    """What the user says together with the results."""


Step = Said | Asked
TEXT = st.text("abc .", min_size=1).filter(str.strip)
ARGUMENTS = st.dictionaries(st.sampled_from("xy"), st.integers() | TEXT, max_size=2).map(json.dumps)
STEPS = st.lists(
    st.builds(Said, st.sampled_from(["user", "assistant"]), TEXT)
    | st.builds(
        Asked,
        TEXT | st.just(""),
        st.lists(st.tuples(ARGUMENTS, TEXT), min_size=1, max_size=3).map(tuple),
        TEXT | st.just(""),
    ),
    max_size=5,
)
Ids = Iterator[str]


def write_chat(steps: list[Step], ids: Ids) -> Iterator[Any]:
    for step in steps:
        if isinstance(step, Said):
            yield {"role": step.role, "content": step.text}
            continue
        named = [(next(ids), arguments, result) for arguments, result in step.calls]
        calls = [
            {"id": id, "type": "function", "function": {"name": "t", "arguments": arguments}}
            for id, arguments, _ in named
        ]
        yield {"role": "assistant", "content": step.text or None, "tool_calls": calls}
        for id, _, result in named:
            yield {"role": "tool", "tool_call_id": id, "content": result}
        if step.aside:
            yield {"role": "user", "content": step.aside}


def write_responses(steps: list[Step], ids: Ids) -> Iterator[Any]:
    for step in steps:
        if isinstance(step, Said):
            yield {"role": step.role, "content": step.text}
            continue
        named = [(next(ids), arguments, result) for arguments, result in step.calls]
        if step.text:
            yield {"type": "reasoning", "id": "rs", "summary": []}
        for id, arguments, _ in named:
            yield {"type": "function_call", "call_id": id, "name": "t", "arguments": arguments}
        for id, _, result in named:
            yield {"type": "function_call_output", "call_id": id, "output": result}
        if step.aside:
            yield {"role": "user", "content": step.aside}


def write_anthropic(steps: list[Step], ids: Ids) -> Iterator[Any]:
    for step in steps:
        if isinstance(step, Said):
            yield {"role": step.role, "content": step.text}
            continue
        named = [(next(ids), arguments, result) for arguments, result in step.calls]
        text = [{"type": "text", "text": step.text}] if step.text else []
        aside = [{"type": "text", "text": step.aside}] if step.aside else []
        calls = [
            {"type": "tool_use", "id": id, "name": "t", "input": json.loads(arguments)}
            for id, arguments, _ in named
        ]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": result} for id, _, result in named
        ]
        yield {"role": "assistant", "content": text + calls}
        yield {"role": "user", "content": results + aside}


WRITERS: dict[str, Callable[[list[Step], Ids], Iterator[Any]]] = {
    "openai-chat": write_chat,
    "openai-responses": write_responses,
    "anthropic": write_anthropic,
}
PROTOCOLS = st.sampled_from(sorted(WRITERS))
TARGETS = st.sampled_from(
    [
        Target(),
        OPENAI_CHAT,
        OPENAI_RESPONSES,
        ANTHROPIC,
        MISTRAL,
        DEEPSEEK,
        GEMINI,
    ]
)


def write(protocol: str, steps: list[Step], *, ids: Ids | None = None) -> list[Any]:
    return list(WRITERS[protocol](steps, ids or (f"id_{n}" for n in itertools.count())))


# ── Broken ones ─────────────────────────────────────────────────────────────────────

JUNK: list[Any] = [
    None,
    5,
    [],
    {},
    {"role": None},
    {"role": ["user"], "content": "x"},
    {"role": "robot", "content": []},
    {"role": "user"},
    {"role": "user", "content": 5},
    {"role": "assistant", "content": None, "tool_calls": 5},
    {"role": "assistant", "content": None, "tool_calls": [None]},
    {"role": "assistant", "content": [None, {"type": "tool_use"}, {"type": ["text"]}]},
    {"type": "item_reference", "id": "msg_1"},
    {"type": ["function_call"]},
]
FLAWS: list[Any] = [
    {"role": "user", "content": ""},
    {"role": "user", "content": [{"type": "text", "text": ""}]},
    {"role": "assistant", "content": " "},
    {"role": "assistant", "content": [], "tool_calls": []},
    {"role": "system", "content": "be brief"},
    {"role": "tool", "content": ""},
    {"role": "tool", "tool_call_id": "id_1", "content": None},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"arguments": "{"}}]},
    {"role": "assistant", "tool_calls": [{"id": "id_0", "type": "custom"}, {"id": "id_0"}]},
    {"type": "reasoning", "id": "rs", "summary": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]},
    {"type": "function_call", "arguments": None},
    {"type": "custom_tool_call", "call_id": "id_0", "input": "x"},
    {"type": "function_call_output", "call_id": "id_0"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": 7, "input": "{"}]},
    {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "id_0"}]},
]


@st.composite
def broken(draw: st.DrawFn, flaws: list[Any]) -> tuple[str, list[Any]]:
    protocol = draw(PROTOCOLS)
    # Few ids, so that many calls bear the same.
    ids = st.iterables(st.sampled_from(["id_0", "id_1", "a:0", "", "x" * 70]), min_size=40)
    messages = write(protocol, draw(STEPS), ids=iter(draw(ids)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(messages)))
        match draw(st.sampled_from(["insert", "delete", "repeat", "swap"])):
            case "insert":
                messages.insert(at, draw(st.sampled_from(flaws)))
            case "delete":
                del messages[at : at + 1]
            case "repeat":
                messages += messages[at : at + 1]
            case "swap":
                messages[at - 1 : at + 1] = reversed(messages[at - 1 : at + 1])
    return protocol, messages


# ── The law, told by somebody who does not know how it is kept ──────────────────────


def read_chat(messages: list[Any]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the calls of each turn, and the results that stand directly behind it."""
    groups = [list(group) for _, group in itertools.groupby(messages, is_tool_message)]
    for group, behind in itertools.pairwise([*groups, []]):
        if not is_tool_message(group[0]):
            # Between two messages with calls would have to stand the results of the first.
            assert not any(message.get("tool_calls") for message in group[:-1])
            calls = [call["id"] for call in group[-1].get("tool_calls", [])]
            yield calls, [result["tool_call_id"] for result in behind]


def is_tool_message(message: Any) -> bool:
    return bool(message["role"] == "tool")


def read_responses(items: list[Any]) -> Iterator[tuple[list[str], list[str]]]:
    def side(item: Any) -> str:
        if item.get("type", "").endswith("_output"):
            return "results"
        return "user" if item.get("role") in ("user", "system") else "model"

    groups = [(name, list(group)) for name, group in itertools.groupby(items, side)]
    for (name, group), (behind, results) in itertools.pairwise([*groups, ("", [])]):
        if name != "results":
            answers = results if behind == "results" else []
            calls = [item["call_id"] for item in group if item.get("type", "").endswith("_call")]
            yield calls, [item["call_id"] for item in answers]


def read_anthropic(messages: list[Any]) -> Iterator[tuple[list[str], list[str]]]:
    nothing: dict[str, Any] = {"content": []}
    for message, behind in itertools.pairwise([nothing, *messages, nothing]):
        calls = [block["id"] for block in blocks(message) if block["type"] == "tool_use"]
        kinds = [block["type"] for block in blocks(behind)]
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        yield calls, [block["tool_use_id"] for block in blocks(behind) if "tool_use_id" in block]


def blocks(message: Any) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else []


READERS: dict[str, Callable[[list[Any]], Iterator[tuple[list[str], list[str]]]]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
}
NATIVE: dict[str, Callable[[Any], bool]] = {
    "openai-chat": lambda flaw: "type" not in flaw,
    "openai-responses": lambda flaw: flaw.get("role") != "tool" and "tool_calls" not in flaw,
    "anthropic": lambda flaw: flaw.get("role") in ("user", "assistant", "system"),
}


@given(case=broken(FLAWS))
def test_every_call_has_one_result_in_call_order_directly_behind_it(
    case: tuple[str, list[Any]],
) -> None:
    protocol, messages = case
    readable = [message for message in messages if NATIVE[protocol](message)]
    mended = repair_history(protocol, readable)
    pairs = list(READERS[protocol](mended))

    assert all(calls == results for calls, results in pairs)
    ids = [id for calls, _ in pairs for id in calls]
    assert all(ids)
    assert len(ids) == len(set(ids))


@given(steps=STEPS, protocol=PROTOCOLS)
def test_a_healthy_history_comes_back_equal(steps: list[Step], protocol: str) -> None:
    messages = write(protocol, steps)
    mended = mend(protocol, messages)

    assert mended.messages == messages
    assert mended.changes == ()
    assert mended.system == ()


@given(case=broken(FLAWS + JUNK), target=st.none() | TARGETS, continues=st.booleans())
def test_mending_twice_changes_nothing_more(
    case: tuple[str, list[Any]], target: Target | None, *, continues: bool
) -> None:
    protocol, messages = case
    once = mend(protocol, messages, target=target, continues=continues)
    twice = mend(protocol, once.messages, target=target, continues=continues)

    assert twice.messages == once.messages
    assert twice.changes == ()


@given(case=broken(FLAWS + JUNK), target=TARGETS)
def test_what_comes_in_is_never_touched(case: tuple[str, list[Any]], target: Target) -> None:
    protocol, messages = case
    before = copy.deepcopy(messages)
    mended = mend(protocol, messages, target=target)

    assert messages == before
    assert mended.messages is not messages
    # What is reported as unchanged is unchanged, and the other way round.
    assert (mended.messages == before) == (not mended.changes)


@given(
    anything=st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text("a{", max_size=2),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["role", "type", "content", "tool_calls", "id", "input"])
                    | st.sampled_from(["function", "arguments", "call_id", "output", "text"]),
                    inner
                    | st.sampled_from(["assistant", "tool", "user", "tool_use", "tool_result"])
                    | st.sampled_from(["function_call", "function_call_output", "message"]),
                )
            ),
            max_leaves=12,
        ),
        max_size=4,
    ),
    protocol=PROTOCOLS,
    target=TARGETS,
)
def test_nothing_makes_it_crash(anything: list[Any], protocol: str, *, target: Target) -> None:
    once = mend(protocol, anything, target=target)

    assert mend(protocol, once.messages, target=target).messages == once.messages


@given(case=broken(FLAWS), target=TARGETS)
def test_every_id_is_one_that_the_target_accepts(
    case: tuple[str, list[Any]], target: Target
) -> None:
    protocol, messages = case
    readable = [message for message in messages if NATIVE[protocol](message)]
    mended = mend(protocol, readable, target=target)

    for calls, _ in READERS[protocol](mended.messages):
        assert all(target.ids.accepts(id) for id in calls)


@given(steps=STEPS, protocol=PROTOCOLS, cut=st.integers(0, 5))
def test_a_history_that_grows_keeps_the_ids_of_its_beginning(
    steps: list[Step], protocol: str, *, cut: int
) -> None:
    def turn_scoped(these: list[Step]) -> list[Any]:
        ids = (
            f"t:{place}"
            for step in these
            for place in range(len(step.calls) if isinstance(step, Asked) else 0)
        )
        return write(protocol, these, ids=ids)

    early = repair_history(protocol, turn_scoped(steps[:cut]))

    assert repair_history(protocol, turn_scoped(steps))[: len(early)] == early
