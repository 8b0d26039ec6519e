"""`wholecall record`: ask a model once and keep what it sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from wholecall.cli.recordings import load_tools
from wholecall.dialects.provenance import write_messages
from wholecall.errors import UnreadableRecording, WholecallError
from wholecall.events import Outcome, Text, collect
from wholecall.messages import Message, Request, Role, read_offer
from wholecall.protocols.reader import Reader
from wholecall.upstreams.base import Upstream
from wholecall.upstreams.http import HttpUpstream
from wholecall.upstreams.providers import (
    Route,
    check_base_url,
    demand_key,
    demand_name,
    find_upstream,
)
from wholecall.upstreams.replay import RecordingUpstream, case_assembler


def find_route(model: str, base_url: str | None) -> Route:
    """Call `find_upstream` for a command; report a failure by the name of the command's option."""
    demand_name(model, base_url, option="--base-url")
    if base_url is not None:
        try:
            check_base_url(model, base_url)
        except ValueError as error:
            raise typer.BadParameter(f"--base-url: {error}") from None
    try:
        demand_key(model, base_url, environ=os.environ, option="")
        return find_upstream(model, base_url=base_url)
    except WholecallError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


# `wholecall record`: ask a model once and keep what it sent.


app = typer.Typer(add_completion=False, rich_markup_mode=None)

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="The model to ask: openai/…, responses/…, anthropic/…, ollama/…, gemini/… or "
        "litellm/…. The key is taken from the environment, as in OPENAI_API_KEY.",
    ),
]
PromptOption = Annotated[str, typer.Option("--prompt", metavar="TEXT", help="The question.")]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", help="The file to append the answer to, one line of JSON each."
    ),
]
ToolsOption = Annotated[
    Path | None, typer.Option("--tools", metavar="FILE", help="A JSON array of the tools to offer.")
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The server or running proxy to ask."),
]


@app.command()
def record(
    model: ModelOption,
    prompt: PromptOption,
    *,
    out: OutOption,
    tools: ToolsOption = None,
    base_url: BaseUrlOption = None,
) -> None:
    """Ask a model and keep its answer as a case for `replay` and `check`; keys are hidden."""
    offered = () if tools is None else load_tools(tools)
    route = find_route(model, base_url)
    request = Request(
        model=route.model,
        messages=(Message(Role.USER, (Text(prompt),)),),
        tools=tuple(read_offer(offered).values()),
    )
    with _open(out) as file:
        outcome = asyncio.run(_ask(route.upstream, request, write=file.write))
    typer.echo(f"{out}: {_sum_up(outcome)}")


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    """Open the file before the model is asked, and remove it if nothing was written."""
    is_new = not path.exists()
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise UnreadableRecording(f"{path}: {error.strerror}") from error
    try:
        with file:
            yield file
    finally:
        if is_new and not path.stat().st_size:
            path.unlink()


async def _ask(upstream: Upstream, request: Request, *, write: Callable[[str], object]) -> Outcome:
    """Ask, and write down what came, whether or not all of it came."""
    secrets = upstream.endpoint.secrets if isinstance(upstream, HttpUpstream) else ()
    recorder = RecordingUpstream(upstream, write, secrets=secrets)
    try:
        return await _read(recorder, request)
    finally:
        await recorder.close()


async def _read(upstream: Upstream, request: Request) -> Outcome:
    # Without tools every call is counted, as `check` does with what was recorded.
    tools = request.tools or None
    within = case_assembler(None, write_messages(request.messages))
    reader = Reader(upstream.protocol, tools, new_assembler=within)
    async with upstream.answer(request) as answer:
        feed = reader.feed if answer.streamed else reader.feed_response
        events = [event async for chunk in answer.chunks for event in feed(chunk)]
    return collect([*events, *reader.end()])


def _sum_up(outcome: Outcome) -> str:
    counts = [
        f"{len(outcome.text)} characters of text",
        f"calls: {len(outcome.calls)}",
        f"rejected: {len(outcome.rejected)}",
    ]
    return ", ".join([*counts, *([f"failed: {outcome.error}"] if outcome.error else [])])
