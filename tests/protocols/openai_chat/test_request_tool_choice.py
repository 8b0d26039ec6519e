"""OpenAI's forms of choice, in chat and in Responses."""

from typing import Any

import pytest

from wholecall.errors import InvalidChoice
from wholecall.messages import Choice, EncodedChoice, Mode, Special
from wholecall.protocols.openai_chat.request import CHOICE as CHAT
from wholecall.protocols.openai_chat.request import OpenAIForm
from wholecall.protocols.openai_responses.request import CHOICE as RESPONSES

OFFERED = ("alpha", "beta", "gamma")
AUTO, REQUIRED = Mode.AUTO, Mode.REQUIRED


def nested(name: str, kind: str = "function") -> dict[str, Any]:
    return {"type": kind, kind: {"name": name}}


def flat(name: str, kind: str = "function") -> dict[str, Any]:
    return {"type": kind, "name": name}


def allowed(mode: str, *tools: Any) -> dict[str, Any]:
    return {"mode": mode, "tools": [*tools]}


def asked(value: Any, **fields: Any) -> dict[str, Any]:
    return {"tool_choice": value, **fields}


def chat_allowed(mode: str, *tools: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": allowed(mode, *tools)}


# what holds, form, request, choice
READ: list[tuple[str, OpenAIForm, dict[str, Any], Choice]] = [
    ("nothing", CHAT, {}, Choice()),
    ("auto", CHAT, asked("auto"), Choice()),
    ("none", CHAT, asked("none"), Choice(Mode.NONE)),
    ("required", CHAT, asked("required"), Choice(REQUIRED)),
    ("Mistral's any", CHAT, asked("any"), Choice(REQUIRED)),
    ("one at a time", CHAT, {"parallel_tool_calls": False}, Choice(parallel=False)),
    ("in parallel, said aloud", CHAT, {"parallel_tool_calls": True}, Choice()),
    (
        "beside none the flag says nothing",
        CHAT,
        asked("none", parallel_tool_calls=False),
        Choice(Mode.NONE),
    ),
    ("one function", CHAT, asked(nested("beta")), Choice(REQUIRED, ("beta",))),
    (
        "one function, once",
        CHAT,
        asked(nested("beta"), parallel_tool_calls=False),
        Choice(REQUIRED, ("beta",), False),
    ),
    (
        "one custom tool",
        CHAT,
        asked(nested("beta", "custom")),
        Choice(REQUIRED, specials=(Special("custom", "beta"),)),
    ),
    (
        "allowed",
        CHAT,
        asked(chat_allowed("auto", nested("beta"), nested("alpha"))),
        Choice(AUTO, ("beta", "alpha")),
    ),
    (
        "allowed twice",
        CHAT,
        asked(chat_allowed("auto", nested("beta"), nested("beta"))),
        Choice(AUTO, ("beta",)),
    ),
    (
        "allowed and required",
        CHAT,
        asked(chat_allowed("required", nested("beta"))),
        Choice(REQUIRED, ("beta",)),
    ),
    ("the old none", CHAT, {"function_call": "none"}, Choice(Mode.NONE)),
    ("the old and the new none", CHAT, asked("none", function_call="none"), Choice(Mode.NONE)),
    (
        "the old and the new name",
        CHAT,
        asked({"type": "function", "function": {"name": "beta"}}, function_call={"name": "beta"}),
        Choice(REQUIRED, ("beta",)),
    ),
    ("the old auto", CHAT, {"function_call": "auto"}, Choice()),
    ("the old name", CHAT, {"function_call": {"name": "beta"}}, Choice(REQUIRED, ("beta",))),
    (
        "a missing old field",
        CHAT,
        {"function_call": None, "tool_choice": "none"},
        Choice(Mode.NONE),
    ),
    ("none in Responses", RESPONSES, asked("none"), Choice(Mode.NONE)),
    ("required in Responses", RESPONSES, asked("required"), Choice(REQUIRED)),
    ("one function in Responses", RESPONSES, asked(flat("beta")), Choice(REQUIRED, ("beta",))),
    (
        "one custom tool in Responses",
        RESPONSES,
        asked(flat("beta", "custom")),
        Choice(REQUIRED, specials=(Special("custom", "beta"),)),
    ),
    (
        "an upstream's own tool",
        RESPONSES,
        asked({"type": "file_search"}),
        Choice(REQUIRED, specials=(Special("file_search"),)),
    ),
    (
        "a server's tools",
        RESPONSES,
        asked({"type": "mcp", "server_label": "docs"}),
        Choice(REQUIRED, specials=(Special("mcp", "", "docs"),)),
    ),
    (
        "a server's tool",
        RESPONSES,
        asked({"type": "mcp", "server_label": "docs", "name": "find"}),
        Choice(REQUIRED, specials=(Special("mcp", "find", "docs"),)),
    ),
    (
        "allowed in Responses",
        RESPONSES,
        asked({"type": "allowed_tools", **allowed("required", flat("beta"), {"type": "shell"})}),
        Choice(REQUIRED, ("beta",), specials=(Special("shell"),)),
    ),
    ("Responses has no old field", RESPONSES, {"function_call": "none"}, Choice()),
]


@pytest.mark.parametrize(
    ("form", "request_", "choice"), [r[1:] for r in READ], ids=[r[0] for r in READ]
)
def test_each_form_is_read(form: OpenAIForm, request_: dict[str, Any], *, choice: Choice) -> None:
    assert form.decode(request_, OFFERED) == choice


# what holds, form, request, the field that is named, words of the refusal
REFUSED: list[tuple[str, OpenAIForm, dict[str, Any], str, str]] = [
    (
        "a mistyped none is not auto",
        CHAT,
        asked("None"),
        "tool_choice",
        "'None'; allowed: 'any', 'auto', 'none', 'required'",
    ),
    (
        "any is Mistral's and chat's",
        RESPONSES,
        asked("any"),
        "tool_choice",
        "allowed: 'auto', 'none', 'required'",
    ),
    ("an empty word", CHAT, asked(""), "tool_choice", "''"),
    ("a number", CHAT, asked(0), "tool_choice", "0"),
    ("false is not none", CHAT, asked(False), "tool_choice", "False"),
    ("a list", CHAT, asked(["auto"]), "tool_choice", "['auto']"),
    (
        "no type",
        CHAT,
        asked({}),
        "tool_choice.type",
        "allowed: 'allowed_tools', 'custom', 'function'",
    ),
    ("an unknown type", CHAT, asked({"type": "tool"}), "tool_choice.type", "'tool'"),
    (
        "a type that is no word",
        CHAT,
        asked({"type": ["function"]}),
        "tool_choice.type",
        "['function']",
    ),
    ("the name not nested", CHAT, asked(flat("beta")), "tool_choice.function", "an object"),
    (
        "the name nested",
        RESPONSES,
        asked(nested("beta")),
        "tool_choice.name",
        "None; allowed: 'alpha', 'beta', 'gamma'",
    ),
    (
        "an unknown function",
        CHAT,
        asked(nested("delta")),
        "tool_choice.function.name",
        "'delta'; allowed: 'alpha', 'beta', 'gamma'",
    ),
    (
        "an unknown custom tool",
        CHAT,
        asked(nested("delta", "custom")),
        "tool_choice.custom.name",
        "'delta'",
    ),
    ("a hosted tool in chat", CHAT, asked({"type": "shell"}), "tool_choice.type", "'shell'"),
    (
        "an unknown hosted tool",
        RESPONSES,
        asked({"type": "teleport"}),
        "tool_choice.type",
        "'teleport'",
    ),
    ("no server", RESPONSES, asked({"type": "mcp"}), "tool_choice.server_label", "None"),
    (
        "a server's tool without a name",
        RESPONSES,
        asked({"type": "mcp", "server_label": "docs", "name": 1}),
        "tool_choice.name",
        "1",
    ),
    (
        "nothing allowed",
        CHAT,
        asked(chat_allowed("auto")),
        "tool_choice.allowed_tools.tools",
        "a list of at least one tool",
    ),
    (
        "a body that is missing",
        CHAT,
        asked({"type": "allowed_tools", "mode": "auto"}),
        "tool_choice.allowed_tools",
        "an object",
    ),
    (
        "allowed in no mode",
        CHAT,
        asked(chat_allowed("none", nested("beta"))),
        "tool_choice.allowed_tools.mode",
        "allowed: 'auto', 'required'",
    ),
    (
        "tools that are no list",
        RESPONSES,
        asked({"type": "allowed_tools", "mode": "auto", "tools": "beta"}),
        "tool_choice.tools",
        "'beta'",
    ),
    (
        "a tool that is no object",
        RESPONSES,
        asked({"type": "allowed_tools", **allowed("auto", "beta")}),
        "tool_choice.tools[0]",
        "an object",
    ),
    (
        "the second unknown",
        CHAT,
        asked(chat_allowed("auto", nested("beta"), nested("delta"))),
        "tool_choice.allowed_tools.tools[1].function.name",
        "'delta'",
    ),
    (
        "allowed among the allowed",
        RESPONSES,
        asked({"type": "allowed_tools", **allowed("auto", {"type": "allowed_tools"})}),
        "tool_choice.tools[0].type",
        "'allowed_tools'",
    ),
    (
        "a flag that is a word",
        CHAT,
        {"parallel_tool_calls": "false"},
        "parallel_tool_calls",
        "true, false",
    ),
    (
        "an unknown old word",
        CHAT,
        {"function_call": "required"},
        "function_call",
        "allowed: 'auto', 'none'",
    ),
    (
        "an unknown old name",
        CHAT,
        {"function_call": {"name": "delta"}},
        "function_call.name",
        "'delta'",
    ),
    (
        "both fields",
        CHAT,
        asked("auto", function_call="none"),
        "function_call",
        "the same as tool_choice",
    ),
]


@pytest.mark.parametrize(
    ("form", "request_", "param", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_each_invalid_value_is_refused_by_name(
    form: OpenAIForm, request_: dict[str, Any], *, param: str, words: str
) -> None:
    with pytest.raises(InvalidChoice) as refused:
        form.decode(request_, OFFERED)

    assert refused.value.param == param
    assert str(refused.value).startswith(f"{param} is ")
    assert words in str(refused.value)


SHELL, CUSTOM = Special("shell"), Special("custom", "gamma")

# what holds, form, choice, what is said
SAID: list[tuple[str, OpenAIForm, Choice, EncodedChoice]] = [
    ("auto", CHAT, Choice(), EncodedChoice({"tool_choice": "auto"})),
    ("none", RESPONSES, Choice(Mode.NONE), EncodedChoice({"tool_choice": "none"})),
    (
        "required, one at a time",
        CHAT,
        Choice(REQUIRED, parallel=False),
        EncodedChoice({"tool_choice": "required", "parallel_tool_calls": False}),
    ),
    (
        "one function in chat",
        CHAT,
        Choice(REQUIRED, ("beta",)),
        EncodedChoice({"tool_choice": nested("beta")}),
    ),
    (
        "one function in Responses",
        RESPONSES,
        Choice(REQUIRED, ("beta",)),
        EncodedChoice({"tool_choice": flat("beta")}),
    ),
    (
        "one that may be called",
        CHAT,
        Choice(AUTO, ("beta",)),
        EncodedChoice({"tool_choice": chat_allowed("auto", nested("beta"))}),
    ),
    (
        "two in Responses",
        RESPONSES,
        Choice(REQUIRED, ("beta",), specials=(SHELL,)),
        EncodedChoice(
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    **allowed("required", flat("beta"), {"type": "shell"}),
                }
            }
        ),
    ),
    (
        "a custom tool in chat",
        CHAT,
        Choice(REQUIRED, specials=(CUSTOM,)),
        EncodedChoice({"tool_choice": nested("gamma", "custom")}),
    ),
    (
        "chat cannot say a hosted tool",
        CHAT,
        Choice(AUTO, ("beta",), specials=(SHELL,)),
        EncodedChoice({"tool_choice": chat_allowed("auto", nested("beta"))}, unsaid=(SHELL,)),
    ),
    (
        "and then nothing may be called",
        CHAT,
        Choice(REQUIRED, parallel=False, specials=(SHELL,)),
        EncodedChoice({"tool_choice": "none"}, unsaid=(SHELL,)),
    ),
]


@pytest.mark.parametrize(
    ("form", "choice", "said"), [r[1:] for r in SAID], ids=[r[0] for r in SAID]
)
def test_each_choice_is_said(form: OpenAIForm, choice: Choice, *, said: EncodedChoice) -> None:
    assert form.encode(choice) == said
