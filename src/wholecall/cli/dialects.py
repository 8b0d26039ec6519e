"""`wholecall dialects`: list them, show one, learn one from a chat template, guess one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wholecall.dialect_files import (
    SAMPLE_CALL,
    SAMPLE_OUTPUT,
    SAMPLE_TOOL,
    describe,
    dump_dialect,
    entries,
    learn_dialect,
    load_chat_template,
    load_dialect,
    save_dialect,
)
from wholecall.dialects.dialect import Dialect
from wholecall.dialects.dialect_registry import DIALECTS, dialect_named
from wholecall.dialects.dialect_registry import guess as guess_dialects
from wholecall.dialects.emulation.prompt import write_prompt
from wholecall.dialects.learn.learner import Learned
from wholecall.dialects.rescue import encode_output, parse_text
from wholecall.messages import read_offer

app = typer.Typer(
    help="The textual forms in which models write calls.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)
_WIDTH = 120

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A dialect's name, or a file: a saved dialect, a response template, a "
        "tokenizer_config.json, a chat template.",
    ),
]
TemplateArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A chat template (.jinja), or the tokenizer_config.json with it."
    ),
]
AnswerArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The text of an answer, as the model wrote it.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Save the dialect as JSON.")
]


@app.callback()
def dialects(context: typer.Context) -> None:
    """List the textual forms in which models write calls."""
    if context.invoked_subcommand is not None:
        return
    table = Table("dialect", "family", "written by", "prompts", box=None, pad_edge=False)
    for entry in entries():
        table.add_row(entry.name, entry.family, entry.models, "yes" if entry.sample else "no")
    Console(width=max(Console().width, _WIDTH)).print(table)


@app.command()
def show(name: NameArgument) -> None:
    """Print the prompt for a sample tool, a sample call and its result."""
    dialect = _find(name)
    entry = describe(dialect)
    typer.echo(f"{entry.name}: {entry.family}, written by {entry.models}")
    if dialect.template is None:
        typer.echo("It can only be read.")
        return
    tool, _ = SAMPLE_CALL
    _section("prompt", write_prompt(dialect, read_offer([SAMPLE_TOOL])))
    _section("a call", entry.sample)
    _section("its result", encode_output(dialect, tool, output=SAMPLE_OUTPUT, id="call_1"))
    _section("what it cannot carry", entry.cannot or "nothing: every call can be written")


@app.command()
def learn(file: TemplateArgument, out: OutOption = None) -> None:
    """Learn a dialect from a model's chat template, and verify it.

    The template is rendered with and without calls, in a process of its own, and what it
    writes is compared.
    """
    template, tokens = load_chat_template(file)
    learned = learn_dialect(template, name=file.stem, tokens=tokens)
    _section("dialect", json.dumps(dump_dialect(learned.dialect), ensure_ascii=False, indent=2))
    _section("the template's own calls, read back as they were", learned.rendered.strip())
    _section("calls written in the dialect, read back as they were", learned.encoded.strip())
    for note in _notes(learned):
        typer.echo(f"\n{note}")
    if out is not None:
        _save(learned.dialect, out)
        typer.echo(f"\nSaved as {out}.")


@app.command()
def guess(file: AnswerArgument) -> None:
    """Say in which dialect a text is written, why, and what to announce."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    fitting = _guess(text)
    if not fitting:
        typer.echo("No mark of a dialect occurs in it, or no call follows one.")
        raise typer.Exit(1)
    for name, marks in fitting:
        calls = ", ".join(call.name for call in parse_text(name, text).calls)
        typer.echo(f"{name}: written by {DIALECTS[name].models}")
        typer.echo(f"  because of {' '.join(map(repr, marks))}; calls: {calls}")
    typer.echo(f"To read such answers, set `emulate: {fitting[0][0]}` for the model.")


def _guess(text: str) -> list[tuple[str, list[str]]]:
    """Return the dialects that could be announced for a text: they read calls in it, and no other
    one shares more marks with it."""
    fitting = [
        (name, marks) for name, marks in guess_dialects(text) if parse_text(name, text).calls
    ]
    return [(name, marks) for name, marks in fitting if marks == fitting[0][1]]


def _save(dialect: Dialect, path: Path) -> None:
    try:
        save_dialect(dialect, path)
    except OSError as error:
        raise typer.BadParameter(f"--out: {path} cannot be written: {error.strerror}") from None


def _find(name: str) -> Dialect:
    if name not in DIALECTS and Path(name).is_file():
        return load_dialect(name)
    return dialect_named(name)


def _section(title: str, text: str) -> None:
    typer.echo(f"\n── {title} ──\n{text}")


def _notes(learned: Learned) -> list[str]:
    notes = []
    if learned.known_as:
        notes.append(f"It is known as {learned.known_as!r}: no file is needed for it.")
    if learned.single:
        notes.append("The template takes one call in an answer.")
    return notes
