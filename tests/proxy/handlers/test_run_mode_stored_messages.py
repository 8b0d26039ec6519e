"""Messages survive being written down."""

from __future__ import annotations

import json

from wholecall.events import Reasoning, Text
from wholecall.journal.journal_rows import encode_row, read_messages, write_messages
from wholecall.messages import CallResult, Media, Message, Native, PastCall, Result, Role

IMAGE = Media(kind="image", media_type="image/png", data="AAAA", name="a.png")
MESSAGES = (
    Message(Role.USER, (Text("hé"), IMAGE)),
    Message(
        Role.ASSISTANT,
        (
            Reasoning("hm", {"signature": "s"}),
            Native("anthropic", {"type": "server_tool_use"}),
            PastCall(
                id="c0",
                name="dig",
                arguments={"depth": 12345678901234567890, "list": [1.5, None]},
                provider_id="p0",
                extras={"thought_signature": "t"},
            ),
        ),
    ),
    Message(
        Role.TOOL,
        (CallResult(call_id="c0", name="dig", result=Result((Text("done"), IMAGE), failed=True)),),
    ),
)


def test_what_was_written_is_read_again() -> None:
    assert read_messages(json.loads(encode_row(write_messages(MESSAGES)))) == MESSAGES


def test_what_a_message_was_read_from_is_not_kept() -> None:
    native = Message(Role.USER, (Text("hi"),), Native("openai-chat", ({"role": "user"},)))
    written = json.loads(encode_row(write_messages([native])))
    assert read_messages(written) == (Message(Role.USER, (Text("hi"),)),)
