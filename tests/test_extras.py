"""The library without extras, the command line without the proxy, and what they say is missing.

The environments hold links to the installed packages, and nothing that their extras do not bring.
tests/wheel does the same with the built wheel and pip.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import pytest
from packaging.requirements import Requirement

from test_docs import PROGRAMS, ROOT

SECONDS = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCE = ROOT / "src" / "wholecall"
README_PROGRAM = next(
    program
    for place, program in PROGRAMS.items()
    if place.startswith("README.md:") and program.output is not None
)
USE_MCP = """
import asyncio, wholecall
async def use():
    async with wholecall.McpTools(wholecall.McpServer("time", command="none")):
        pass
asyncio.run(use())
"""
USE_POSTGRES = """
import wholecall
wholecall.ask_sync("openai/x", "Hi", api_key="none", journal="postgresql://127.0.0.1/none")
"""
# A program that needs an extra, the extra, and what is said to need it.
IMPORTS = [
    ("import wholecall.proxy.server", "proxy", "wholecall.proxy"),
    (USE_MCP, "mcp", "MCP servers"),
    ("import wholecall; wholecall.ask_sync('litellm/x', 'Hi')", "litellm", "litellm/… models"),
    (USE_POSTGRES, "fleet", "a journal on PostgreSQL"),
]
COMMANDS = [
    ((), "cli", "the command line"),
    (("--version",), "cli", "the command line"),
    (("check", "answer.json"), "cli", "the command line"),
    (("serve", "--upstream", "http://127.0.0.1:1/v1"), "proxy", "wholecall serve"),
    (("demo",), "proxy", "wholecall demo"),
    (("config", "check"), "proxy", "wholecall config"),
    (("keys", "list"), "proxy", "wholecall keys"),
]

Done: TypeAlias = "subprocess.CompletedProcess[str]"
Python: TypeAlias = Callable[..., Done]


def explain(purpose: str, extra: str) -> str:
    return f"{purpose} cannot be used without the extra {extra!r}: pip install 'wholecall[{extra}]'"


def find_all(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that requirements bring, with all that those need."""
    found: set[str] = set()
    todo = [Requirement(each) for each in requirements]
    while todo:
        wanted = todo.pop()
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if applies and wanted.name not in found:
            found.add(wanted.name)
            todo += map(Requirement, metadata.requires(wanted.name) or ())
    return found


def make_environment(folder: Path, requirements: Iterable[str]) -> Python:
    """Link the package and what the requirements bring; return what runs Python there."""
    (folder / "wholecall").symlink_to(SOURCE)
    for name in find_all(requirements):
        files = metadata.files(name) or ()
        for top in {file.parts[0] for file in files if not file.parts[0].startswith((".", "_p"))}:
            place = Path(str(metadata.distribution(name).locate_file(top)))
            if place.exists() and not (folder / top).exists():
                (folder / top).symlink_to(place)

    def python(*arguments: str) -> Done:
        return subprocess.run(
            [sys.executable, "-S", "-X", "utf8", *arguments],
            cwd=folder,
            env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )

    return python


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Python:
    return make_environment(tmp_path_factory.mktemp("bare"), PROJECT["dependencies"])


@pytest.fixture(scope="module")
def with_cli(tmp_path_factory: pytest.TempPathFactory) -> Python:
    brought = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    return make_environment(tmp_path_factory.mktemp("cli"), brought)


def test_the_core_has_six_dependencies_and_all_is_every_extra() -> None:
    assert len(PROJECT["dependencies"]) <= 6
    extras = PROJECT["optional-dependencies"]
    [everything] = extras["all"]
    assert Requirement(everything).extras == extras.keys() - {"all"}


def test_the_program_of_the_readme_runs_without_extras(bare: Python) -> None:
    done = bare("-c", README_PROGRAM.source)
    assert (done.stderr, done.stdout.rstrip()) == ("", README_PROGRAM.output)


@pytest.mark.parametrize(("program", "extra", "purpose"), IMPORTS)
def test_a_program_that_needs_an_extra_says_which(
    program: str, extra: str, *, purpose: str, bare: Python
) -> None:
    done = bare("-c", program)
    assert done.returncode == 1
    expected = f"wholecall.errors.MissingExtra: {explain(purpose, extra)}"
    assert done.stderr.splitlines()[-1] == expected


@pytest.mark.parametrize(("arguments", "extra", "purpose"), COMMANDS)
def test_a_command_that_needs_an_extra_says_which_in_one_line(
    arguments: tuple[str, ...], extra: str, *, purpose: str, bare: Python
) -> None:
    done = bare("-m", "wholecall", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"wholecall: {explain(purpose, extra)}\n"


def test_without_the_proxy_its_commands_say_so_and_the_others_work(with_cli: Python) -> None:
    listed = with_cli("-m", "wholecall", "--help")
    assert listed.returncode == 0, listed.stderr
    assert "wholecall.proxy cannot be used without the extra" in " ".join(listed.stdout.split())
    played = with_cli("-m", "wholecall", "replay")
    assert (played.returncode, played.stderr) == (0, "")
    for command in ("chat", "dialects", "faults", "model", "record"):
        shown = with_cli("-m", "wholecall", command, "--help")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "cannot be used" not in shown.stdout


@pytest.mark.parametrize(("arguments", "extra", "purpose"), COMMANDS[3:])
def test_with_the_command_line_a_command_of_the_proxy_says_so(
    arguments: tuple[str, ...], extra: str, *, purpose: str, with_cli: Python
) -> None:
    done = with_cli("-m", "wholecall", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"wholecall: {explain(purpose, extra)}\n"
    # Options before the command are not looked at; then the stand-in of the command speaks.
    done = with_cli("-c", f"from wholecall.cli.main import main; main({list(arguments)!r})")
    assert done.returncode == 2
    assert done.stderr == f"wholecall: {explain('wholecall.proxy', extra)}\n"


def test_packages_that_another_extra_brings_do_not_stand_for_the_proxy(tmp_path: Path) -> None:
    extras = PROJECT["optional-dependencies"]
    brought = [*PROJECT["dependencies"], *extras["cli"], *extras["mcp"]]
    assert {"starlette", "uvicorn"} <= find_all(brought)  # the MCP SDK needs them, too
    done = make_environment(tmp_path, brought)("-m", "wholecall", "keys", "list")
    assert (done.returncode, done.stderr) == (
        1,
        f"wholecall: {explain('wholecall keys', 'proxy')}\n",
    )
