"""`wholecall chat` and `wholecall ask`: talk to a model in a terminal, or ask it once."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console

from wholecall.agent.api import RunOptions, run
from wholecall.agent.api import ask as ask_model
from wholecall.agent.run_events import RunEvent, ToolEnded
from wholecall.cli.chat_view import ChatView
from wholecall.cli.record import BaseUrlOption, find_route
from wholecall.cli.report import escape
from wholecall.cli.tool_options import McpOption, ToolOption, import_tools, read_servers
from wholecall.dialects.dialect_registry import way_for
from wholecall.errors import WholecallError
from wholecall.events import JSON, Call, Text
from wholecall.messages import Message, Role
from wholecall.scripted_model import NAME, TOOLS, ScriptedModel
from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Elicitation, Tool
from wholecall.tools.toolbox import Offered, Toolbox
from wholecall.upstreams.base import PREFIX
from wholecall.upstreams.local_upstream import LocalUpstream
from wholecall.upstreams.model_files import DEFAULT, models_folder
from wholecall.upstreams.providers import Route


def gather_tools(tools: Iterable[Offered], *, approve: bool) -> tuple[Tool, ...]:
    """The tools of a chat; with `approve`, each call of them needs a yes."""
    found = tuple(Toolbox(tools))
    return tuple(replace(tool, approve=True) for tool in found) if approve else found


def _ask_for(call: Call) -> str:
    """Describe a call for approval: the call as it would run, and how it differs from what the
    model wrote."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    changes = [
        *(f"repaired: {repair.kind}" for repair in call.repairs),
        *(f"coerced: {coercion.path}" for coercion in call.coercions),
        *(f"left out: {name}" for name in call.dropped),
    ]
    noted = f" ({', '.join(changes)})" if changes else ""
    return f"Run {call.name} {arguments}?{noted} [y/N]"


class Chat:
    """Keeps the conversation. A question that was broken off leaves no trace in it."""

    def __init__(
        self,
        route: Route,
        *,
        tools: tuple[Tool, ...] = (),
        system: str = "",
        emulate: str | None = None,
    ) -> None:
        self._route = route
        self._options: RunOptions = {"upstream": route.upstream, "tools": tools}
        if system:
            self._options["system"] = system
        if emulate is not None:
            self._options["emulate"] = emulate
        self.messages: tuple[Message, ...] = ()

    async def ask(
        self, question: str, view: ChatView, *, hear: Callable[[Callable[[], None]], Awaitable[str]]
    ) -> None:
        """Let the model answer, and show how it does. `hear` shows a question; it returns the
        line that the user types."""
        messages = (*self.messages, Message(Role.USER, (Text(question),)))
        asking = asyncio.Lock()

        async def approve(call: Call) -> bool:
            async with asking:  # the user is asked one thing at a time
                with view.asking(_ask_for(call)) as show:
                    return is_yes(await hear(show))

        async def elicit(_call: Call, asked: Elicitation) -> Mapping[str, JSON] | None:
            async def put(words: str) -> str:
                with view.asking(words) as show:
                    line = await hear(show)
                if not line:
                    raise EOFError("the input ended")
                return line.strip()

            async with asking:
                return await fill_in(asked, put)

        options: RunOptions = {**self._options, "approve": approve, "elicit": elicit}
        async with run(self._route.model, messages, **options) as started:
            async for event in started:
                view.take(event)
            result = await started.result()
        self.messages = (*messages, *result.messages)
        view.finish(result)

    def forget(self) -> None:
        """Begin anew."""
        self.messages = ()

    async def close(self) -> None:
        """Give back connections and processes."""
        await self._route.upstream.close()


# User input in a chat: lines with a history, multi-line texts, yes or no.


PROMPT, MORE = "> ", "… "
FENCE = '"""'
"""Opens and closes a text of several lines."""
CONTINUED = "\\"
"""At the end of a line: the text continues on the next one."""
KEPT_LINES = 1000


def read_text(read: Callable[[str], str] = input) -> str | None:
    """Return the next user input, or None at the end of input.

    A line that ends with a backslash continues on the next one. Lines of three quotes enclose a
    text of any form.
    """
    try:
        line = read(PROMPT)
        if line.strip().startswith(FENCE):
            return "\n".join(_read_fenced(line.strip().removeprefix(FENCE), read)).strip()
        return "\n".join(_read_continued(line, read)).strip()
    except EOFError:
        if sys.stdin.isatty():
            print()  # noqa: T201 - the shell continues in a line of its own
        return None


def _read_fenced(line: str, read: Callable[[str], str]) -> Iterator[str]:
    while not line.rstrip().endswith(FENCE):
        yield line
        line = read(MORE)
    yield line.rstrip().removesuffix(FENCE)


def _read_continued(line: str, read: Callable[[str], str]) -> Iterator[str]:
    while line.endswith(CONTINUED):
        yield line.removesuffix(CONTINUED)
        line = read(MORE)
    yield line


@contextlib.contextmanager
def history(path: Path, *, module: str = "readline") -> Iterator[None]:
    """Offer lines of earlier chats under the arrow keys, if readline is available."""
    try:
        readline: ModuleType = importlib.import_module(module)
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError):  # the first chat has no file
        readline.read_history_file(path)
    readline.set_history_length(KEPT_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the chat works without it
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)


async def fill_in(
    asked: Elicitation, put: Callable[[str], Awaitable[str]]
) -> Mapping[str, JSON] | None:
    """Let the user answer what a server asks, field by field; None if the user declines.

    Of an optional field an empty line leaves the answer out.
    """
    place = f"\n{asked.url}" if asked.url else ""
    words = f"The server {asked.server} asks: {asked.message}{place}\nAnswer it? [y/N]"
    if not is_yes(await put(words)):
        return None
    fields, required = asked.schema.get("properties"), asked.schema.get("required")
    content: dict[str, JSON] = {}
    for name, schema in fields.items() if isinstance(fields, Mapping) else ():
        optional = not isinstance(required, list) or name not in required
        line = await put(describe_field(name, schema, optional=optional))
        if line or not optional:
            content[name] = line
    return content


def describe_field(name: str, schema: object, *, optional: bool) -> str:
    """Ask for one field of a form."""
    rules = schema if isinstance(schema, Mapping) else {}
    notes = [rules.get("description"), *_list_choices(rules), "optional" if optional else ""]
    about = ", ".join(str(note) for note in notes if note)
    return f"{rules.get('title') or name}{f' ({about})' if about else ''}:"


def _list_choices(rules: Mapping[str, Any]) -> list[str]:
    if rules.get("type") == "boolean":
        return ["true or false"]
    choices = rules.get("enum")
    return [" | ".join(map(str, choices))] if isinstance(choices, list) else []


def is_yes(line: str) -> bool:
    """Return True if a line is a yes."""
    return line.strip().lower() in {"y", "yes"}


async def hear_line(show: Callable[[], None]) -> str:
    """Show a question; return the next line.

    In a terminal the line is read asynchronously, so that Ctrl-C interrupts it; `input` could not
    be interrupted. Input typed before the question does not count and is discarded.
    """
    with echo(on=True):
        show()
        return await _next_line() if sys.stdin.isatty() else sys.stdin.readline()


async def _next_line() -> str:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, readable.set)
    try:
        await readable.wait()
    except asyncio.CancelledError:
        print()  # noqa: T201 - Ctrl-C is in the line of the question
        raise
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


@contextlib.contextmanager
def echo(*, on: bool, module: str = "termios") -> Iterator[None]:
    """Turn the terminal's echo on or off.

    It must be off while an answer is drawn, because a key would be echoed into the drawing. Input
    typed before it is turned on is discarded.
    """
    try:
        termios: ModuleType | None = importlib.import_module(module)
    except ImportError:  # Windows
        termios = None
    if termios is None or not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    modes = before[3] | termios.ECHO if on else before[3] & ~termios.ECHO
    termios.tcsetattr(keyboard, termios.TCSANOW, [*before[:3], modes, *before[4:]])
    if on:
        termios.tcflush(keyboard, termios.TCIFLUSH)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


# Question and answer in a terminal, until the user has no more.


_HELP = (
    "Ctrl-C stops the answer, Ctrl-D ends the chat. A line that ends with a backslash continues on "
    'the next; """ opens and closes a longer text. /clear forgets the conversation, /exit ends it.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """Settings of a chat."""

    system: str = ""
    """Instructions for the model."""
    emulate: str | None = None
    """The way in which tools are offered."""
    tools: tuple[Tool, ...] = ()
    """Tools that run here."""
    servers: tuple[McpServer, ...] = ()
    """MCP servers whose tools are offered."""
    approve: bool = False
    """Ask before each call."""


def chat_with(route: Route, settings: ChatSettings, *, history_file: Path) -> None:
    """Talk until the user ends it. Ctrl-C breaks off an answer."""
    view = ChatView(
        Console(highlight=False), width=_find_width, awaited=lambda: say_what_is_awaited(route)
    )
    view.note(f"{route.model}. {_HELP}")
    with asyncio.Runner() as runner, history(history_file), _serving(runner, settings) as mcp:
        chat = Chat(
            route,
            tools=gather_tools((*settings.tools, *mcp), approve=settings.approve),
            system=settings.system,
            emulate=settings.emulate,
        )
        try:
            converse(
                chat,
                view,
                run=lambda question: runner.run(chat.ask(question, view, hear=hear_line)),
            )
        finally:
            view.pause()
            runner.run(chat.close())


@contextlib.contextmanager
def _serving(runner: asyncio.Runner, settings: ChatSettings) -> Iterator[tuple[Tool, ...]]:
    """Start the MCP servers, and end them with the chat."""
    if not settings.servers:
        yield ()
        return
    tools = McpTools(*settings.servers)
    runner.run(tools.__aenter__())
    try:
        yield tuple(tools)
    finally:
        runner.run(tools.__aexit__(None, None, None))


def say_what_is_awaited(route: Route) -> str:
    """Describe what is awaited: the first question loads a local model."""
    upstream = route.upstream
    is_loading = isinstance(upstream, LocalUpstream) and not upstream.is_loaded
    return f"{'loading' if is_loading else 'waiting for'} {route.model} …"


def _find_width() -> int:
    return shutil.get_terminal_size((0, 0)).columns


def converse(
    chat: Chat,
    view: ChatView,
    *,
    run: Callable[[str], None],
    read: Callable[[], str | None] = read_text,
) -> None:
    """Question and answer, until the user has no more."""
    while True:
        try:
            question = read()
        except KeyboardInterrupt:
            view.note("\nCtrl-D ends the chat")
            continue
        if question is None or question == "/exit":
            return
        if question == "/clear":
            chat.forget()
            view.note("forgotten")
        elif question.startswith("/"):
            view.note(_HELP)
        elif question:
            _answer(question, view, run=run)


def _answer(question: str, view: ChatView, *, run: Callable[[str], None]) -> None:
    try:
        with echo(on=False):
            run(question)
    except KeyboardInterrupt:
        view.settle()
        view.note("interrupted; the question is forgotten", "yellow")
    except WholecallError as error:
        view.settle()
        view.note(str(error), "bold red")


# The command line: `wholecall chat`.


_HISTORY = "chat_history"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="The model: local/…, openai/…, anthropic/…, ollama/…, the name of a model at "
        "--base-url, or `demo`: a script that plays recorded streams. The key is taken from the "
        "environment, as in OPENAI_API_KEY.",
    ),
]
SystemOption = Annotated[
    str, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")
]
EmulateOption = Annotated[
    str | None,
    typer.Option(
        "--emulate",
        metavar="DIALECT",
        help="How tools are offered: native, constrained, auto, or a dialect.",
    ),
]
ToolsOption = Annotated[
    bool | None,
    typer.Option(
        "--tools/--no-tools",
        help="Offer the four example tools. Default: unless --tool or --mcp names others.",
        show_default=False,
    ),
]
ApproveOption = Annotated[
    bool, typer.Option("--approve", help="Ask before each call whether it may run.")
]


@app.command()
def chat(  # noqa: PLR0913 - the parameters of a command are its options
    model: ModelArgument = f"{PREFIX}{DEFAULT}",
    *,
    base_url: BaseUrlOption = None,
    system: SystemOption = "",
    emulate: EmulateOption = None,
    tools: ToolsOption = None,
    tool: ToolOption = None,
    mcp: McpOption = None,
    approve: ApproveOption = False,
) -> None:
    """Talk to a model, and see its calls being built, checked and run."""
    route = _find_route(model, base_url, emulate=emulate)
    own, servers = import_tools(tool or ()), read_servers(mcp or ())
    wants_examples = not (own or servers) if tools is None else tools
    settings = ChatSettings(
        system=system,
        emulate=emulate,
        tools=(*own, *(Toolbox(TOOLS) if wants_examples else ())),
        servers=servers,
        approve=approve,
    )
    chat_with(route, settings, history_file=models_folder(os.environ).with_name(_HISTORY))


def _find_route(model: str, base_url: str | None, *, emulate: str | None) -> Route:
    if emulate is not None:
        way_for(model, override=emulate)  # report an unusable model before the first question
    scripted = model == NAME and base_url is None
    return Route(ScriptedModel(), NAME) if scripted else find_route(model, base_url)


# The command line: `wholecall ask`.


ask_app = typer.Typer(add_completion=False, rich_markup_mode=None)

QuestionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION",
        help="The question. Text from a pipe follows it; without a QUESTION it is the question.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="MODEL", help="The model, as in `wholecall chat`.")
]


@ask_app.command()
def ask(  # noqa: PLR0913 - the parameters of a command are its options
    question: QuestionArgument = None,
    *,
    model: ModelOption = f"{PREFIX}{DEFAULT}",
    base_url: BaseUrlOption = None,
    system: SystemOption = "",
    emulate: EmulateOption = None,
    tool: ToolOption = None,
    mcp: McpOption = None,
) -> None:
    """Ask a model once, let it use tools, and print the answer.

    The answer goes to the standard output. Calls and their results go to the standard error.
    """
    piped = "" if sys.stdin.isatty() else sys.stdin.read().strip()
    asked = "\n\n".join(filter(None, (question, piped)))
    if not asked:
        raise typer.BadParameter("there is no question: write one, or pipe one in")
    route = _find_route(model, base_url, emulate=emulate)
    settings = ChatSettings(
        system=system,
        emulate=emulate,
        tools=import_tools(tool or ()),
        servers=read_servers(mcp or ()),
    )
    typer.echo(asyncio.run(_ask_once(route, asked, settings=settings)))


async def _ask_once(route: Route, question: str, *, settings: ChatSettings) -> str:
    options: RunOptions = {"upstream": route.upstream, "taps": [_report_tool]}
    if settings.system:
        options["system"] = settings.system
    if settings.emulate is not None:
        options["emulate"] = settings.emulate
    try:
        async with contextlib.AsyncExitStack() as stack:
            mcp: Iterable[Tool] = ()
            if settings.servers:
                mcp = await stack.enter_async_context(McpTools(*settings.servers))
            options["tools"] = (*settings.tools, *mcp)
            return (await ask_model(route.model, question, **options)).text
    finally:
        await route.upstream.close()


def _report_tool(event: RunEvent) -> None:
    if isinstance(event, ToolEnded):
        arguments = json.dumps(event.call.arguments, ensure_ascii=False)
        said = f"{event.call.name} {arguments}: {event.status.value}: {event.result.text}"
        typer.echo(escape(said), err=True)
