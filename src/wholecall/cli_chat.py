"""The command line: `wholecall chat`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from wholecall.chatting import ChatSettings, chat_with
from wholecall.cli_routes import find_route
from wholecall.demo.scripted import NAME, ScriptedModel
from wholecall.dialects.models import way_for
from wholecall.upstreams.local.catalogue import DEFAULT
from wholecall.upstreams.local.folder import models_folder
from wholecall.upstreams.local.traits import PREFIX
from wholecall.upstreams.names import Route

_HISTORY = "chat_history"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Who answers: local/…, openai/…, anthropic/…, ollama/…, the name of a model behind "
        "--base-url, or `demo`: a script that plays recorded streams. The key is taken from the "
        "environment, as in OPENAI_API_KEY.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Ask there: a server, or a running proxy."),
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
    bool, typer.Option("--tools/--no-tools", help="Offer the four example tools.")
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
    tools: ToolsOption = True,
    approve: ApproveOption = False,
) -> None:
    """Talk to a model, and see its calls being built, checked and run."""
    scripted = model == NAME and base_url is None
    if emulate is not None:
        way_for(model, override=emulate)  # report an unusable model before the first question
    route = Route(ScriptedModel(), NAME) if scripted else find_route(model, base_url)
    settings = ChatSettings(system=system, emulate=emulate, with_tools=tools, approve=approve)
    chat_with(route, settings, history_file=models_folder(os.environ).with_name(_HISTORY))
