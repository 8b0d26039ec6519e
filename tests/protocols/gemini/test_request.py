from typing import Any

import pytest

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Mode,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.gemini.request import encode

USER = Message(Role.USER, (Text("hi"),))
HI = {"role": "user", "parts": [{"text": "hi"}]}
CALL = PastCall(id="a", name="f", arguments={"x": 1})
SIGNED = PastCall(id="a", name="f", arguments={}, extras={"thought_signature": "s"})
PICTURE = Media(kind="image", media_type="image/png", data="AAAA")
NOTES = Media(kind="document", media_type="text/plain", data="aGk=", name="a.txt")
SHOWN = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
SCHEMA = {"type": "object"}
TOOLS = (ToolSpec("f", SCHEMA, "d"), ToolSpec("g", SCHEMA))
F = {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}
G = {"name": "g", "parametersJsonSchema": SCHEMA}


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(Request(**{"model": "gemini-3-pro", **fields}, messages=messages or (USER,)))


def answer(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def result(*content: Text | Media, **fields: Any) -> Message:
    return Message(Role.TOOL, (CallResult(call_id="a", result=Result(content, **fields)),))


def calling(mode: str, **more: Any) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": {"mode": mode, **more}}}


SEARCH = Native("gemini", {"googleSearch": {}})


@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({}, {}),
        (
            {"max_tokens": 5, "temperature": 0.5, "top_p": 0.1, "stop": ("a",)},
            {
                "generationConfig": {
                    "maxOutputTokens": 5,
                    "temperature": 0.5,
                    "topP": 0.1,
                    "stopSequences": ["a"],
                }
            },
        ),
        (
            {
                "output": OutputSchema(schema=SCHEMA),
                "rest": Native("gemini", {"generationConfig": {"seed": 1}, "safetySettings": []}),
            },
            {
                "generationConfig": {
                    "seed": 1,
                    "responseMimeType": "application/json",
                    "responseJsonSchema": SCHEMA,
                },
                "safetySettings": [],
            },
        ),
        ({"tools": TOOLS}, {"tools": [{"functionDeclarations": [F, G]}]}),
        (
            {"tools": TOOLS, "choice": Choice(Mode.NONE)},
            {"tools": [{"functionDeclarations": [F, G]}], **calling("NONE")},
        ),
        (
            {"tools": TOOLS, "choice": Choice(Mode.REQUIRED, ("f",))},
            {
                "tools": [{"functionDeclarations": [F, G]}],
                **calling("ANY", allowedFunctionNames=["f"]),
            },
        ),
        (
            {"tools": TOOLS, "choice": Choice(Mode.AUTO, ("f",))},
            {"tools": [{"functionDeclarations": [F]}]},
        ),
        ({"native_tools": (SEARCH,)}, {"tools": [{"googleSearch": {}}]}),
        ({"native_tools": (Native("anthropic", {}),), "choice": Choice(Mode.NONE)}, {}),
    ],
)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {"contents": [HI], **added}


MESSAGES: list[tuple[str, list[Message], list[Any]]] = [
    (
        "images and addresses",
        [
            Message(
                Role.USER,
                (
                    PICTURE,
                    Media(kind="document", url="https://x"),
                    Native("gemini", {"videoMetadata": {}}),
                    Native("anthropic", {}),
                    Text(""),
                ),
            )
        ],
        [
            {
                "role": "user",
                "parts": [
                    SHOWN,
                    {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x"}},
                    {"videoMetadata": {}},
                    {"text": "(Something was left out here that this model cannot be given.)"},
                ],
            }
        ],
    ),
    ("an empty message is none", [Message(Role.USER, (Text(""),)), answer(), USER], [HI]),
    (
        "results stand behind their calls, and images behind the results",
        [answer(SIGNED), result(Text("1"), PICTURE), USER],
        [
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "f", "response": {"output": "1"}}},
                    SHOWN,
                ],
            },
            HI,
        ],
    ),
    (
        "signatures stand on what they came with",
        [
            answer(
                Reasoning("", {"thought_signature": "0"}),
                Reasoning("plan", {"thought_signature": "1"}),
                Reasoning("no"),
                Reasoning("no", {"signature": "x"}),
                Text("t"),
                Reasoning("", {"thought_signature": "2"}),
                Reasoning("", {"thought_signature": "3"}),
                Native("gemini", {"executableCode": {}, "thought_signature": "4"}),
                Reasoning("", {"thought_signature": "4"}),
                Native("anthropic", {}),
                Text(""),
            )
        ],
        [
            {
                "role": "model",
                "parts": [
                    {"text": "", "thoughtSignature": "0"},
                    {"text": "plan", "thought": True, "thoughtSignature": "1"},
                    {"text": "t", "thoughtSignature": "2"},
                    {"text": "", "thoughtSignature": "3"},
                    {"executableCode": {}, "thought_signature": "4"},
                ],
            }
        ],
    ),
    (
        "what is in its own form goes out as it is",
        [Message(Role.USER, (), Native("gemini", ({"parts": [{"x": 1}]},)))],
        [{"parts": [{"x": 1}]}],
    ),
]


@pytest.mark.parametrize(
    ("messages", "contents"), [pytest.param(m, w, id=says) for says, m, w in MESSAGES]
)
def test_messages(messages: list[Message], contents: list[Any]) -> None:
    assert body(*messages)["contents"] == contents


def test_system_messages_stand_apart() -> None:
    system = Message(Role.SYSTEM, (Text("s"),))
    written = body(system, USER, system)
    assert written["systemInstruction"] == {"parts": [{"text": "s"}, {"text": "s"}]}
    assert written["contents"] == [HI]


@pytest.mark.parametrize(
    ("outcome", "response"),
    [
        (result(Text("no"), failed=True), {"error": "no"}),
        (result(Text("[1]"), structured=[1]), {"output": [1]}),
        (result(Text("[1]"), Text(" Note."), structured=[1]), {"output": "[1] Note."}),
        (result(Text("[1]"), structured=[1, 2]), {"output": "[1]"}),
        (result(Text("[1]")), {"output": "[1]"}),
    ],
)
def test_results(outcome: Message, response: Any) -> None:
    [part] = body(answer(CALL), outcome)["contents"][1]["parts"]
    assert part["functionResponse"]["response"] == response


@pytest.mark.parametrize(
    ("model", "signature"),
    [
        ("gemini-3-pro", "skip_thought_signature_validator"),
        ("gemini-flash-latest", "skip_thought_signature_validator"),
        ("gemini-2.5-pro", None),
    ],
)
def test_a_call_of_another_model_needs_no_signature(model: str, signature: str | None) -> None:
    other = PastCall(id="b", name="g", arguments={})
    parts = body(answer(CALL, other), model=model)["contents"][0]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [signature, None]


def test_the_first_call_has_a_signature_also_where_a_later_one_has() -> None:
    other = PastCall(id="b", name="g", arguments={}, extras={"thought_signature": "s"})
    for parts in ((CALL, other), (other, CALL)):
        written = body(answer(*parts), model="gemini-3-pro")["contents"][0]["parts"]
        assert "thoughtSignature" in written[0]
        assert "s" in [part.get("thoughtSignature") for part in written]


@pytest.mark.parametrize(
    ("extras", "signature"),
    [
        ({"extra_content": {"google": {"thought_signature": "s"}}}, "s"),
        ({"extra_content": {"google": 1}}, None),
        ({"extra_content": 1}, None),
    ],
)
def test_a_signature_may_have_gone_through_openai(extras: Any, signature: str | None) -> None:
    call = PastCall(id="a", name="f", arguments={}, extras=extras)
    [part] = body(answer(call), model="gemini-2.5")["contents"][0]["parts"]
    assert part.get("thoughtSignature") == signature


def test_an_id_goes_back_if_there_was_one() -> None:
    call = PastCall(id="a", name="f", arguments={}, provider_id="p")
    [called, answered] = body(answer(call), result(Text("1")))["contents"]
    assert called["parts"][0]["functionCall"]["id"] == "p"
    assert answered["parts"][0]["functionResponse"]["id"] == "p"


def test_a_document_that_is_text_keeps_its_name() -> None:
    written = encode(Request(model="gemini-3-pro", messages=(Message(Role.USER, (NOTES,)),)))
    assert written["contents"] == [{"role": "user", "parts": [{"text": "a.txt:\nhi"}]}]
