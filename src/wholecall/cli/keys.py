"""The command line: `wholecall keys create`, `keys list`, `keys revoke`."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from wholecall.cli.config import ConfigOption
from wholecall.cli.report import escape
from wholecall.journal.postgres_server import name_server
from wholecall.proxy.config.load import find_file, load
from wholecall.proxy.config.schema import Config, find_shared_url
from wholecall.proxy.http.api_keys import Key, KeyEntry, KeyStore, open_keys

app = typer.Typer(
    help="Make, list and revoke the keys of the proxy's clients.",
    add_completion=False,
    rich_markup_mode=None,
)
_NOT_FOUND = 1
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<unit>[mhdw])")

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
MayApproveOption = Annotated[
    bool,
    typer.Option(
        "--may-approve", help="Let it decide about calls of its runs that wait for a person."
    ),
]
RpmOption = Annotated[
    int | None,
    typer.Option(
        "--rpm",
        metavar="N",
        min=1,
        help="Requests per minute. Default: no limit.",
        show_default=False,
    ),
]
ConcurrentOption = Annotated[
    int | None,
    typer.Option(
        "--concurrent",
        metavar="N",
        min=1,
        help="Requests to models at a time. Default: no limit.",
        show_default=False,
    ),
]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="SPAN",
        help="How long it is valid: 12h, 30d, 8w. Default: until it is revoked.",
        show_default=False,
    ),
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON a key.")]


@app.command()
def create(  # noqa: PLR0913 - the parameters of a command are its options
    *,
    name: NameOption,
    model: ModelsOption = None,
    tool: ToolsOption = None,
    may_approve: MayApproveOption = False,
    rpm: RpmOption = None,
    concurrent: ConcurrentOption = None,
    expires: ExpiresOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a key. It is shown once; the proxy keeps only its hash."""
    rights = Key(
        id="",
        name=name,
        models=tuple(model or ("*",)),
        tools=tuple(tool or ()),
        may_approve=may_approve,
        rpm=rpm,
        concurrent=concurrent,
        expires=None if expires is None else time.time() + _read_span(expires),
    )
    with closing(open_keys(_load(config))) as store:
        text, key = store.create(rights)
    typer.echo(f"{key.id}: {_tell_rights(key)}", err=True)
    typer.echo("This is the key. Store it now; it is not shown again:", err=True)
    typer.echo(text)


@app.command("list")
def list_keys(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the keys and what they may do, oldest first."""
    loaded = _load(config)
    with _open_store(loaded) as store:
        entries = [] if store is None else store.list()
    if not entries:
        url = find_shared_url(loaded)
        place = name_server(url) if url else loaded.keys.path
        typer.echo(f"wholecall: there are no keys in {escape(place)}", err=True)
    for entry in entries:
        typer.echo(json.dumps(_describe(entry)) if as_json else escape(_tell(entry)))


@app.command()
def revoke(id: IdArgument, *, config: ConfigOption = None) -> None:
    """Revoke a key. Running proxies stop accepting it within seconds.

    Exit with status 1 if the key does not exist.
    """
    with _open_store(_load(config)) as store:
        revoked = store is not None and store.revoke(id)
    if not revoked:
        typer.echo(f"wholecall: there is no active key {escape(id)}", err=True)
        raise typer.Exit(_NOT_FOUND)
    typer.echo(f"{id} is revoked")


@contextmanager
def _open_store(config: Config) -> Iterator[KeyStore | None]:
    """Open the key store, or yield None if its file does not exist; never create it."""
    if not find_shared_url(config) and not Path(config.keys.path).exists():
        yield None
        return
    with closing(open_keys(config)) as store:
        yield store


def _load(config: Path | None) -> Config:
    return load(find_file(config, os.environ), os.environ, without_keys=True).config


def _read_span(text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time span: write 12h, 30d or 8w")
    return int(found["number"]) * _SECONDS[found["unit"]]


# ── Words ───────────────────────────────────────────────────────────────────────────


def _tell(entry: KeyEntry) -> str:
    return f"{entry.key.id}  {entry.key.name}  ({_tell_state(entry)}): {_tell_rights(entry.key)}"


def _tell_state(entry: KeyEntry) -> str:
    if entry.revoked is not None:
        return f"revoked {_tell_time(entry.revoked)}"
    expires = entry.key.expires
    if expires is None:
        return f"since {_tell_time(entry.created)}"
    return f"{'ended' if expires <= time.time() else 'until'} {_tell_time(expires)}"


def _tell_rights(key: Key) -> str:
    rights = [
        f"models {', '.join(key.models)}",
        f"tools {', '.join(key.tools) or 'none'}",
        *(["may approve calls"] if key.may_approve else []),
        *([f"{key.rpm} requests a minute"] if key.rpm else []),
        *([f"{key.concurrent} at a time"] if key.concurrent else []),
    ]
    return "; ".join(rights)


def _tell_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _describe(entry: KeyEntry) -> dict[str, object]:
    return {**asdict(entry.key), "created": entry.created, "revoked": entry.revoked}
