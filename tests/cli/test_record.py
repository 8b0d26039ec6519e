"""`wholecall record` against a real server, and its file played again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from upstreams.fake_endpoint import FIRST, KEY, PATIENCE, SECOND, Handler, good, serving, stream
from wholecall.cli import main

TOOLS = [{"name": "weather", "input_schema": {"type": "object"}}]
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1",'
    b'"function":{"name":"weather","arguments":"{\\"city\\": \\"Oslo\\"}"}}]}}]}\n\n'
)
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
END = b"data: [DONE]\n\n"


@contextmanager
def serving_in_thread(handler: Handler) -> Iterator[str]:
    """A server for a program that runs its own event loop."""
    ready: list[str] = []
    started, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(handler) as server:
            ready.append(server.url)
            started.set()
            await asyncio.to_thread(ended.wait, PATIENCE)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield ready[0]
    finally:
        ended.set()
        thread.join(PATIENCE)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as exited:
        main.main(arguments)
    captured = capsys.readouterr()
    return exited.value.code or 0, captured.out, captured.err


async def call_weather(request: web.BaseRequest) -> web.StreamResponse:
    return await stream(request, CALL, FINISH, END)


def test_an_answer_is_appended_and_can_be_checked(
    *, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    out, tools = tmp_path / "recorded.jsonl", tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    with serving_in_thread(call_weather) as url:
        for _ in range(2):
            code, shown, _ = run(
                capsys,
                *("record", "--model", "openai/m", "--prompt", "Weather in Oslo?"),
                *("--tools", str(tools), "--out", str(out), "--base-url", url),
            )
            assert code == 0
            assert shown == f"{out}: 0 characters of text, calls: 1, rejected: 0\n"
    lines = out.read_text().splitlines()
    assert [json.loads(line)["title"] for line in lines] == ["m: Weather in Oslo?"] * 2
    assert KEY not in out.read_text()
    code, shown, _ = run(capsys, "check", str(out))
    assert code == 0
    assert [json.loads(line)["calls"][0]["arguments"] for line in shown.splitlines()] == [
        {"city": "Oslo"}
    ] * 2


async def dropped(request: web.BaseRequest) -> web.StreamResponse:
    return await stream(request, FIRST)


@pytest.mark.parametrize(
    ("handler", "kept", "said"),
    [
        (good, FIRST + SECOND, "5 characters of text, calls: 0, rejected: 0"),
        (dropped, FIRST, "5 characters of text, calls: 0, rejected: 0, failed: stream_dropped"),
        (call_weather, CALL + FINISH + END, "0 characters of text, calls: 1, rejected: 0"),
    ],
)
def test_what_came_is_kept_byte_for_byte(
    *,
    handler: Handler,
    kept: bytes,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "recorded.jsonl"
    with serving_in_thread(handler) as url:
        arguments = ("--model", "m", "--prompt", "Hi", "--out", str(out), "--base-url", url)
        code, shown, _ = run(capsys, "record", *arguments)
    assert (code, shown) == (0, f"{out}: {said}\n")
    assert "".join(json.loads(out.read_text())["events"]).encode() == kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "m"), "does not say who answers"),
        (("--model", "litellm/m"), "pip install 'wholecall[litellm]'"),
    ],
)
def test_what_cannot_be_asked_says_why(
    options: tuple[str, ...], said: str, *, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = (*options, "--prompt", "Hi", "--out", str(tmp_path / "out"))
    code, _, complaint = run(capsys, "record", *arguments)
    assert code == 2
    assert said in complaint


async def refuse(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"error": {"message": "no such model"}}, status=404)


@pytest.mark.parametrize("before", [None, "", "kept\n"])
def test_where_nothing_came_no_file_is_left_that_was_not_there(
    before: str | None, *, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "recorded.jsonl"
    if before is not None:
        out.write_text(before)
    with serving_in_thread(refuse) as url:
        arguments = ("--model", "m", "--prompt", "Hi", "--out", str(out), "--base-url", url)
        code, _, complaint = run(capsys, "record", *arguments)
    assert code == 2
    assert "no such model" in complaint
    assert (out.read_text() if out.exists() else None) == before


def test_a_file_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("--model", "ollama/m", "--prompt", "Hi", "--out", str(tmp_path))
    code, _, complaint = run(capsys, "record", *arguments)
    assert code == 2
    assert f"{tmp_path}: Is a directory" in complaint


@pytest.mark.parametrize("url", ["foo", "http://[::1", "http://h:99999", "http://a b/"])
def test_an_address_that_cannot_be_asked_is_told_before_a_file_is_made(
    url: str, *, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "recorded.jsonl"
    arguments = ("record", "--model", "openai/m", "--prompt", "Hi", "--out", str(out))
    code, shown, err = run(capsys, *arguments, "--base-url", url)
    assert (code, shown) == (2, "")
    assert f"--base-url: {url!r} is not an http:// or https:// address" in err
    assert not out.exists()


def test_a_key_that_cannot_be_sent_is_told_and_not_shown(
    *, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first\nsk-second")
    out = str(tmp_path / "recorded.jsonl")
    code, _, err = run(capsys, "record", "--model", "openai/m", "--prompt", "Hi", "--out", out)
    assert code == 2
    assert "'Authorization' holds a control character" in err
    assert "sk-" not in err
