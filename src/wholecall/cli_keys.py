"""The command line: `wholecall keys create`, `keys list`, `keys revoke`."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from wholecall.proxy.config.loading import find_file, load
from wholecall.proxy.keys import Entry, Key, KeyStore
from wholecall.report import escape

app = typer.Typer(
    help="Make, list and revoke the keys of the proxy's clients.",
    add_completion=False,
    rich_markup_mode=None,
)
_NOT_FOUND = 1
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<unit>[mhdw])")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration of the proxy, which says where its keys are. "
        "Default: what WHOLECALL_CONFIG names, or wholecall.yaml here.",
        show_default=False,
    ),
]
NameOption = Annotated[str, typer.Option("--name", metavar="TEXT", help="Whose key it is.")]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A model that it may use; `*` stands for anything. May be given several times. "
        "Default: all models.",
        show_default=False,
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="NAME",
        help="A tool of the proxy that is run for it; `*` stands for anything. May be given "
        "several times. Default: none.",
        show_default=False,
    ),
]
