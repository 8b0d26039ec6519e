"""Single requests to scripted servers: what is answered, refused, or never answered."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tools.mcp_calls import (
    Ear,
    call,
    define,
    find,
    hearing,
    in_loop,
    make_server,
    opened,
    run,
    scripted,
)
from wholecall.errors import ToolServerFailed
from wholecall.events import Text
from wholecall.messages import Result
from wholecall.tools.mcp.session import PAGES
from wholecall.tools.mcp.tool_definitions import ToolsListed


@in_loop
async def test_arguments_arrive_as_they_are() -> None:
    big = 2**70
    async with opened(make_server(scripted("echo"))) as tools:
        result = await call(tools, "s__echo", text="ä\U0001f600", number=big, empty=None)
    assert json.loads(result.text) == {"text": "ä\U0001f600", "number": big, "empty": None}


@in_loop
async def test_all_pages_are_listed() -> None:
    pages = [[define("a")], [define("b"), define("c")], [define("d")]]
    async with opened(make_server(scripted(pages=pages))) as tools:
        assert [tool.name for tool in tools] == ["s__a", "s__b", "s__c", "s__d"]


@in_loop
async def test_a_list_without_an_end_is_left() -> None:
    async with opened(make_server(scripted("echo", endless=True))) as tools:
        assert [tool.name for tool in tools] == ["s__echo"]
        assert len(tools.refused) == PAGES - 1


@pytest.mark.parametrize("mood", ["", "modern"])
def test_a_changed_list_is_listed_again(mood: str) -> None:
    @in_loop
    async def scenario() -> None:
        ear = Ear()
        later = [[define("change"), define("new")]]
        args = scripted("change", "gone", later=later, mood=mood)
        async with opened(make_server(args), tap=ear) as tools:
            await call(tools, "s__change")
            listed = await ear.wait_for(ToolsListed, 2)
            assert listed.offered == ("change", "new")
            assert [tool.name for tool in tools] == ["s__change", "s__new"]

    scenario()


@pytest.mark.parametrize("refusal", ["error", "honours nothing"])
def test_a_server_without_subscriptions_is_used_without(refusal: str) -> None:
    @in_loop
    async def scenario() -> None:
        args = scripted("echo", mood="modern", refuses_subscription=refusal)
        async with opened(make_server(args)) as tools:
            assert (await call(tools, "s__echo")).text == "{}"

    scenario()


@pytest.mark.parametrize(
    ("options", "how"),
    [({"refuses_subscription": "lost at first"}, ""), ({}, "s__end_subscription")],
)
def test_a_subscription_that_ended_is_opened_again(options: dict[str, Any], how: str) -> None:
    @in_loop
    async def scenario() -> None:
        ear = Ear()
        later = [[define("new")]]
        tools_listed = ("change", "end_subscription")
        args = scripted(*tools_listed, later=later, mood="modern", **options)
        async with opened(make_server(args), tap=ear) as tools:
            if how:
                await call(tools, how)
            await call(tools, "s__change")
            await ear.wait_for(ToolsListed, 2)
            assert [tool.name for tool in tools] == ["s__new"]

    scenario()


@in_loop
async def test_what_changed_while_nobody_listened_is_noticed() -> None:
    ear = Ear()
    args = scripted("slip", later=[[define("new")]], mood="modern")
    async with opened(make_server(args), tap=ear) as tools:
        await call(tools, "s__slip")
        assert (await ear.wait_for(ToolsListed, 2)).offered == ("new",)


@in_loop
async def test_a_call_that_is_broken_off_is_broken_off_at_the_server() -> None:
    async with hearing() as words, opened(make_server(scripted("hang", "echo"))) as tools:
        calling = asyncio.create_task(call(tools, "s__hang", port=words.port))
        assert await words.hear() == "begun"
        calling.cancel()
        assert await words.hear() == "broken off"
        with pytest.raises(asyncio.CancelledError):
            await calling
        # The connection is as good as before.
        assert (await call(tools, "s__echo")).text == "{}"


@in_loop
async def test_lines_that_are_no_messages_do_no_harm() -> None:
    async with opened(make_server(scripted("mumble"))) as tools:
        assert (await call(tools, "s__mumble", a=1)).text == '{"a": 1}'


@in_loop
async def test_a_refusal_of_the_server_is_a_failure_in_its_words() -> None:
    async with opened(make_server(scripted("refuse"))) as tools:
        result = await call(tools, "s__refuse", code=-32602)
    assert result == Result((Text("refused (MCP error -32602)"),), failed=True)


@in_loop
async def test_no_answer_says_nothing_about_what_was_done() -> None:
    async with opened(make_server(scripted("refuse"))) as tools:
        for code in (-32000, -32603):
            with pytest.raises(ToolServerFailed, match=r"no answer came .*is unknown") as caught:
                await call(tools, "s__refuse", code=code)
            assert caught.value.outcome_unknown


@in_loop
async def test_an_answer_that_is_no_result_is_the_servers_fault() -> None:
    async with opened(make_server(scripted("answer_nonsense"))) as tools:
        with pytest.raises(ToolServerFailed, match=r"no result of a tool; .*unknown") as caught:
            await call(tools, "s__answer_nonsense")
    assert caught.value.outcome_unknown


@in_loop
async def test_a_server_that_asks_back_gets_no_answer() -> None:
    async with opened(make_server(scripted("ask_back", mood="modern"))) as tools:
        result = await call(tools, "s__ask_back")
    assert result.failed
    assert "that is not possible here" in result.text


@in_loop
async def test_calls_in_flight_fail_when_the_server_ends(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    async with hearing() as words, opened(make_server(scripted("hang", "die"))) as tools:
        hanging = asyncio.create_task(call(tools, "s__hang", port=words.port))
        await words.hear()
        for failing in (run(find(tools, "s__die"), ran=str(ran)), hanging):
            with pytest.raises(ToolServerFailed, match=r"'s': it ended .*is unknown") as caught:
                await failing
            assert caught.value.outcome_unknown
    assert ran.read_text("utf-8") == "ran\n"
