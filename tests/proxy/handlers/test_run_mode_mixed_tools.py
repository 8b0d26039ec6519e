"""Tools of both sides: what the client does not see is put back into its history."""

from __future__ import annotations

from proxy_server import in_loop
from wholecall.agent.budget import Stop
from wholecall.agent.run import RunResult
from wholecall.events import Call, Evidence, Text
from wholecall.messages import CallResult, Message, PastCall, Result, Role
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.storage import BlobStore

THEIRS = Call(id="p1", name="ask", arguments={}, raw="{}", evidence=Evidence.CONFIRMED, number=1)
FIRST = Message(Role.ASSISTANT, (PastCall(id="p9", name="dig", arguments={}),))
FIRST_RESULT = Message(Role.TOOL, (CallResult(call_id="p9", result=Result((Text("dug"),))),))
LAST = Message(
    Role.ASSISTANT,
    (
        Text("Wait."),
        PastCall(id="p0", name="dig", arguments={"depth": 3}),
        PastCall(id="p1", name="ask", arguments={}),
        PastCall(id="p2", name="dig", arguments={"depth": 4}),
    ),
)
OURS = Message(
    Role.TOOL,
    (
        CallResult(call_id="p0", result=Result((Text("three"),))),
        CallResult(call_id="p2", result=Result((Text("four"),))),
    ),
)
TOLD = Message(Role.USER, (Text("That was no call."),))
ASKED = Message(Role.USER, (Text("hi"),))
KEPT = RunResult(
    text="",
    stop=Stop.CLIENT_CALLS,
    messages=(FIRST, FIRST_RESULT, LAST, OURS, TOLD),
    pending=(THEIRS,),
)


def _texts(messages: tuple[Message, ...]) -> list[tuple[str, list[str]]]:
    return [
        (
            message.role.value,
            [
                part.result.text
                if isinstance(part, CallResult)
                else part.name
                if isinstance(part, PastCall)
                else "…"
                for part in message.parts
            ],
        )
        for message in messages
    ]


@in_loop
async def test_a_history_is_put_together_again_once_and_in_order() -> None:
    ownership = MixedTools(BlobStore())
    [call] = await ownership.keep("key", KEPT)
    assert call.id != "p1"
    said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
    result = Message(Role.TOOL, (CallResult(call_id=call.id, result=Result((Text("yes"),))),))
    history = (ASKED, said, result, ASKED)
    restored = await ownership.restore("key", history)
    expected = [
        ("user", ["…"]),
        ("assistant", ["dig"]),
        ("tool", ["dug"]),
        ("assistant", ["…", "dig", "ask", "dig"]),
        ("tool", ["three", "yes", "four"]),
        ("user", ["…"]),
        ("user", ["…"]),
    ]
    assert _texts(restored) == expected
    # The client sends the same history with every further request.
    assert await ownership.restore("key", history) == restored


@in_loop
async def test_a_client_that_leaves_out_its_result_gets_the_rest_all_the_same() -> None:
    ownership = MixedTools(BlobStore())
    [call] = await ownership.keep("key", KEPT)
    said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
    restored = await ownership.restore("key", (ASKED, said))
    assert _texts(restored)[-2:] == [("tool", ["three", "four"]), ("user", ["…"])]


@in_loop
async def test_nothing_is_given_to_another_key() -> None:
    ownership = MixedTools(BlobStore())
    [call] = await ownership.keep("key", KEPT)
    said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
    assert await ownership.restore("other", (ASKED, said)) == (ASKED, said)


@in_loop
async def test_a_history_of_others_stays_as_it_is() -> None:
    history = (ASKED, LAST, OURS)
    assert await MixedTools(BlobStore()).restore("key", history) is history


@in_loop
async def test_without_any_result_there_is_no_message_of_results() -> None:
    ownership = MixedTools(BlobStore())
    only = RunResult(
        text="", stop=Stop.CLIENT_CALLS, messages=(FIRST, FIRST_RESULT, LAST), pending=(THEIRS,)
    )
    [call] = await ownership.keep("key", only)
    said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
    assert [role for role, _ in _texts(await ownership.restore("key", (said,)))] == [
        "assistant",
        "tool",
        "assistant",
    ]
