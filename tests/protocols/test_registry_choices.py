"""The door of choice: any protocol to any other, and never silently `auto`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.errors import InvalidChoice, UnknownProtocol, WholecallError
from wholecall.messages import Choice, Mode, Special
from wholecall.protocols.registry import decode_choice as decode
from wholecall.protocols.registry import encode_choice as encode

OFFERED = ("alpha", "beta", "gamma")
PROTOCOLS = ("openai-chat", "openai-responses", "anthropic")
NONE = {"openai-chat": "none", "openai-responses": "none", "anthropic": {"type": "none"}}


def function_choices() -> st.SearchStrategy[Choice]:
    some = st.lists(st.sampled_from(OFFERED), unique=True).map(tuple)
    restricted = st.builds(Choice, st.sampled_from([Mode.AUTO, Mode.REQUIRED]), some, st.booleans())
    return st.just(Choice(Mode.NONE)) | restricted


SPECIALS = (
    Special("custom", "gamma"),
    Special("mcp", "search", "docs"),
    Special("mcp", server="docs"),
    Special("shell"),
)


def all_choices() -> st.SearchStrategy[Choice]:
    some = st.lists(st.sampled_from(SPECIALS), unique=True).map(tuple)
    names = st.lists(st.sampled_from(OFFERED[:2]), unique=True).map(tuple)
    modes = st.sampled_from([Mode.AUTO, Mode.REQUIRED])
    return st.builds(Choice, modes, names, st.booleans(), some)


@given(choice=function_choices(), protocol=st.sampled_from(PROTOCOLS[:2]))
def test_openai_says_every_choice_of_functions_without_loss(choice: Choice, protocol: str) -> None:
    said = encode(choice, protocol)

    assert decode(protocol, said.fields, offered=OFFERED) == choice
    assert said.offer is None
    assert said.unsaid == ()


@given(choice=all_choices())
def test_responses_says_every_choice_of_other_tools_without_loss(choice: Choice) -> None:
    said = encode(choice, "openai-responses")

    assert decode("openai-responses", said.fields, offered=OFFERED) == choice
    assert said.unsaid == ()


@given(choice=function_choices())
def test_anthropic_says_every_choice_in_its_object_and_the_offer(choice: Choice) -> None:
    said = encode(choice, "anthropic")
    offered = OFFERED if said.offer is None else said.offer
    heard = decode("anthropic", said.fields, offered=offered)

    assert (heard.mode, heard.parallel) == (choice.mode, choice.parallel)
    assert (heard.names or said.offer or ()) == choice.names


@given(choice=all_choices() | function_choices(), protocol=st.sampled_from(PROTOCOLS))
def test_no_protocol_is_told_more_than_the_choice_allows(choice: Choice, protocol: str) -> None:
    said = encode(choice, protocol)
    offered = OFFERED if said.offer is None else said.offer
    heard = decode(protocol, said.fields, offered=offered)
    callable_ = set() if heard.mode is Mode.NONE else set(heard.names or offered)

    if choice.mode is Mode.NONE:
        assert heard.mode is Mode.NONE
    elif choice.tools:
        assert callable_ <= set(choice.names) or heard.specials
    assert set(said.unsaid) <= set(choice.specials)
    assert set(heard.specials) <= set(choice.specials)


@pytest.mark.parametrize("source", PROTOCOLS)
@pytest.mark.parametrize("target", PROTOCOLS)
def test_none_stays_none_from_each_protocol_to_each(source: str, target: str) -> None:
    choice = decode(source, {"tool_choice": NONE[source]}, offered=OFFERED)

    assert encode(choice, target).fields == {"tool_choice": NONE[target]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_says_nothing_leaves_the_model_free(protocol: str) -> None:
    assert decode(protocol, {}, offered=OFFERED) == Choice()
    assert decode(protocol, {"tool_choice": None}, offered=()) == Choice()


@pytest.mark.parametrize(
    ("protocol", "value"),
    [
        ("openai-chat", "required"),
        ("openai-responses", {"type": "shell"}),
        ("anthropic", {"type": "any"}),
    ],
)
def test_a_call_cannot_be_required_where_nothing_is_offered(protocol: str, value: Any) -> None:
    with pytest.raises(InvalidChoice, match="without tools") as refused:
        decode(protocol, {"tool_choice": value}, offered=())

    assert refused.value.param == "tool_choice"


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["auto", "tool", "function"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["type", "name", "mode", "tools"]), inner)
        ),
        max_leaves=6,
    ),
    protocol=st.sampled_from(PROTOCOLS),
)
def test_any_value_is_a_choice_or_refused(value: Any, protocol: str) -> None:
    refusals: list[InvalidChoice] = []
    try:
        decode(protocol, {"tool_choice": value}, offered=OFFERED)
    except InvalidChoice as error:
        refusals.append(error)

    assert all(error.param in str(error) for error in refusals)
    assert all(error.param.startswith("tool_choice") for error in refusals)


def test_an_unknown_protocol_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownProtocol, match=r"'gopher' is none of 'openai-chat', "):
        encode(Choice(), "gopher")
    with pytest.raises(UnknownProtocol):
        decode("gopher", {}, offered=())


def test_a_refusal_is_one_of_ours_and_a_value_error() -> None:
    assert issubclass(InvalidChoice, WholecallError)
    assert issubclass(InvalidChoice, ValueError)
