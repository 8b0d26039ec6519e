"""A server is started, started again when it ends, and never outlives us."""

import asyncio
import sys
from pathlib import Path

import pytest

from tools.mcp_calls import (
    Ear,
    Pauses,
    call,
    find,
    hearing,
    in_loop,
    is_running,
    make_server,
    opened,
    run,
    scripted,
)
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.server_config import McpServer, Restart
from wholecall.tools.mcp.tool_definitions import ServerLost, ServerNoise, ServerStarted
from wholecall.tools.mcp.toolset import McpTools


def read_processes(starts: Path) -> list[int]:
    return [int(line) for line in starts.read_text("utf-8").split()]


@in_loop
async def test_a_server_that_cannot_be_started_is_named_with_what_it_wrote(tmp_path: Path) -> None:
    args = scripted("echo", starts=str(tmp_path / "starts"), crash=[1])
    with pytest.raises(ToolServerFailed) as failed:
        async with opened(make_server(args)):
            pass
    assert failed.value.server == "s"
    assert failed.value.stderr == "Traceback: the disk is full"
    assert "'s' did not start: it ended before it had answered" in str(failed.value)
    assert "the disk is full" in str(failed.value)


@in_loop
async def test_a_command_that_does_not_exist_is_told() -> None:
    with pytest.raises(ToolServerFailed, match="there is no '/nowhere/server'; is the command"):
        async with opened(McpServer("s", command="/nowhere/server")):
            pass


@in_loop
async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    args = scripted("echo", starts=str(starts), mood="silent")
    with pytest.raises(ToolServerFailed, match=r"did not answer in 0\.5 seconds"):
        async with opened(make_server(args, start_timeout=0.5)):
            pass
    assert not any(is_running(process) for process in read_processes(starts))


@in_loop
async def test_a_process_ends_with_its_context(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with opened(make_server(scripted("echo", starts=str(starts)))):
        [process] = read_processes(starts)
        assert is_running(process)
    assert not is_running(process)


@in_loop
async def test_a_process_that_will_not_end_is_killed(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    args = scripted("echo", starts=str(starts), mood="stubborn")
    async with opened(make_server(args)):
        [process] = read_processes(starts)
    assert not is_running(process)


@in_loop
async def test_a_process_ends_although_its_user_is_cancelled_twice(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    entered = asyncio.Event()

    async def use() -> None:
        async with opened(make_server(scripted("echo", starts=str(starts)))):
            entered.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await entered.wait()
    using.cancel()
    await asyncio.sleep(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert not any(is_running(process) for process in read_processes(starts))


@in_loop
async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with hearing() as words:
        # The server tells that it runs, and then says nothing more.
        program = (
            "import os, socket, sys\n"
            f"open({str(starts)!r}, 'w').write(str(os.getpid()))\n"
            f"socket.create_connection(('127.0.0.1', {words.port})).close()\n"
            "for line in sys.stdin: pass"
        )
        tools = McpTools(make_server(("-c", program)))
        starting = asyncio.create_task(tools.__aenter__())
        await words.hear()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert not any(is_running(process) for process in read_processes(starts))


@in_loop
async def test_a_server_ends_when_our_process_is_killed() -> None:
    ended: asyncio.Queue[bytes] = asyncio.Queue()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.put_nowait(await reader.readline())
        # The system closes the connection when the server's process is gone.
        ended.put_nowait(await reader.read())
        writer.close()

    listener = await asyncio.start_server(watch, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    child = (
        "import socket, sys\n"
        f"watched = socket.create_connection(('127.0.0.1', {port}))\n"
        "watched.sendall(b'begun\\n')\n"
        "for line in sys.stdin: pass"
    )
    parent = (
        "import asyncio, sys\n"
        "from wholecall.tools.mcp.server_config import McpServer\n"
        "from wholecall.tools.mcp.toolset import McpTools\n"
        f"server = McpServer('s', command=sys.executable, args=('-c', {child!r}))\n"
        "asyncio.run(McpTools(server).__aenter__())"
    )
    async with listener:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent)
        assert await ended.get() == b"begun\n"
        process.kill()
        await process.wait()
        assert await ended.get() == b""


@in_loop
async def test_no_task_is_left(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with opened(make_server(scripted("die", mood="modern"))) as tools:
        with pytest.raises(ToolServerFailed):
            await call(tools, "s__die", ran=str(tmp_path / "ran"))
    assert asyncio.all_tasks() == before


@in_loop
async def test_a_server_that_ended_is_started_again_and_calls_wait_for_it(tmp_path: Path) -> None:
    starts, ran, ear = tmp_path / "starts", tmp_path / "ran", Ear()
    args = scripted("die", "echo", starts=str(starts))
    async with opened(make_server(args), tap=ear) as tools:
        with pytest.raises(ToolServerFailed):
            await call(tools, "s__die", ran=str(ran))
        assert (await call(tools, "s__echo", a=1)).text == '{"a": 1}'
        assert (tools.reached, tools.is_ready) == ({"s": True}, True)
        lost = await ear.wait_for(ServerLost)
        assert (lost.server, lost.reason, lost.delay) == ("s", "it ended", 0.5)
        await ear.wait_for(ServerStarted, 2)
    assert ran.read_text("utf-8") == "ran\n"
    assert len(read_processes(starts)) == 2


@in_loop
async def test_the_pauses_grow_while_a_server_does_not_start(tmp_path: Path) -> None:
    ear, pauses = Ear(), Pauses()
    args = scripted("die", "echo", starts=str(tmp_path / "starts"), crash=[2, 3, 4])
    async with McpTools(make_server(args), tap=ear, restart=pauses.restart) as tools:
        with pytest.raises(ToolServerFailed):
            await call(tools, "s__die", ran=str(tmp_path / "ran"))
        await ear.wait_for(ServerStarted, 2)
        assert (await call(tools, "s__echo")).text == "{}"
    assert pauses.seconds == [0.5, 1.0, 2.0, 4.0]
    lost = [event for event in ear.events if isinstance(event, ServerLost)]
    assert ["disk" in event.stderr for event in lost] == [False, True, True, True]


@in_loop
async def test_a_server_that_was_steady_is_started_again_soon(tmp_path: Path) -> None:
    pauses, ear = Pauses(), Ear()
    restart = Restart(jitter=lambda: 1.0, sleep=pauses.sleep, steady=0)
    async with McpTools(make_server(scripted("die")), tap=ear, restart=restart) as tools:
        for number in (1, 2, 3):
            with pytest.raises(ToolServerFailed):
                await call(tools, "s__die", ran=str(tmp_path / "ran"))
            await ear.wait_for(ServerLost, number)
    assert pauses.seconds[:3] == [0.5, 0.5, 0.5]


@in_loop
async def test_calls_fail_at_once_while_a_server_does_not_start(tmp_path: Path) -> None:
    crashed, resume = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        if (tmp_path / "starts").read_text("utf-8").count("\n") > 1:
            crashed.set()
            await resume.wait()

    args = scripted("die", "echo", starts=str(tmp_path / "starts"), crash=[2])
    async with McpTools(make_server(args), restart=Restart(sleep=sleep)) as tools:
        echo = find(tools, "s__echo")
        with pytest.raises(ToolServerFailed):
            await call(tools, "s__die", ran=str(tmp_path / "ran"))
        await crashed.wait()
        with pytest.raises(
            ToolServerFailed, match=r"'s' cannot be reached .* was not run"
        ) as failed:
            await run(echo)
        # What the process wrote is for the operator, not for the model.
        assert "disk" not in str(failed.value)
        resume.set()


@in_loop
async def test_a_server_that_is_not_required_may_come_later(tmp_path: Path) -> None:
    ear = Ear()
    args = scripted("echo", starts=str(tmp_path / "starts"), crash=[1])
    async with opened(make_server(args, required=False), tap=ear) as tools:
        await ear.wait_for(ServerStarted)
        assert [tool.name for tool in tools] == ["s__echo"]


@in_loop
async def test_a_server_that_is_not_required_does_not_delay_the_start() -> None:
    # It never answers, and `in_loop` gives the whole test less time than its `start_timeout`.
    mute = make_server(scripted("echo", mood="silent"), required=False, start_timeout=3_600)
    async with opened(mute) as tools:
        assert (list(tools), tools.reached, tools.is_ready) == ([], {"s": False}, True)


@in_loop
async def test_a_line_that_is_not_a_message_is_reported_once_and_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ear = Ear()
    async with opened(make_server(scripted("mumble")), tap=ear) as tools:
        for _ in range(2):
            assert (await call(tools, "s__mumble")).text == "{}"
    noise = [event for event in ear.events if isinstance(event, ServerNoise)]
    assert noise == [ServerNoise("s", "this is no JSON: \N{REPLACEMENT CHARACTER}")]
    assert not caplog.records


@in_loop
async def test_a_server_that_does_not_list_again_is_given_up() -> None:
    ear = Ear()
    # Its second list is no list of tools.
    args = scripted("change", later=[[{"name": 5}]])
    async with opened(make_server(args), tap=ear) as tools:
        await call(tools, "s__change")
        lost = await ear.wait_for(ServerLost)
        assert "ValidationError" in lost.reason
