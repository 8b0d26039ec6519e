"""The built wheel in clean environments: `make dist` builds it and runs these tests.

They are no part of `make test`, because they install packages from a registry. The versions and
hashes are those of requirements.lock.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterable
from pathlib import Path

import pytest

from test_docs import ROOT
from test_extras import COMMANDS, IMPORTS, PROJECT, README_PROGRAM, Done, explain, find_all

SECONDS = 120
LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*\n(?:[ \t].*\n)*", re.MULTILINE)
LEARN = """
import sys
from wholecall.dialect_files import learn_dialect
learn_dialect("{{ messages }}", name="mine")
"""


def find_wheel() -> Path:
    wheels = list((ROOT / "dist").glob("*.whl"))
    assert len(wheels) == 1, "dist/ should hold one wheel: run `make dist`"
    return wheels[0]


def list_locked(names: Iterable[str]) -> str:
    """Return the entries of the lock for these distributions."""
    wanted = {re.sub(r"[-_.]+", "-", name).lower() for name in names}
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    return "".join(entry[0] for entry in LOCKED.finditer(lock) if entry["name"] in wanted)


class Environment:
    """A clean environment with the wheel, and what some extras bring."""

    def __init__(self, folder: Path, extras: Iterable[str] = ()) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder
        optional = PROJECT["optional-dependencies"]
        brought = [each for extra in extras for each in optional[extra] if "wholecall" not in each]
        requirements = folder / "requirements.txt"
        requirements.write_text(list_locked(find_all([*PROJECT["dependencies"], *brought])))
        self._install("--require-hashes", "-r", str(requirements))
        self._install(str(find_wheel()))
        checked = self.run("python", "-m", "pip", "check")
        assert checked.returncode == 0, checked.stdout

    def run(self, program: str, *arguments: str) -> Done:
        """Run one of its programs, in an empty folder."""
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )

    def _install(self, *arguments: str) -> None:
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        done = self.run("python", *pip, *arguments)
        if done.returncode:
            pytest.fail(f"pip could not install {arguments[-1]}:\n{done.stderr}", pytrace=False)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"))


def test_the_program_of_the_readme_runs(bare: Environment) -> None:
    done = bare.run("python", "-X", "utf8", "-c", README_PROGRAM.source)
    assert (done.stderr, done.stdout.rstrip()) == ("", README_PROGRAM.output)


@pytest.mark.parametrize(
    ("program", "extra", "purpose"), [*IMPORTS, (LEARN, "learn", "chat templates")]
)
def test_a_program_that_needs_an_extra_says_which(
    program: str, extra: str, *, purpose: str, bare: Environment
) -> None:
    done = bare.run("python", "-c", program)
    assert done.returncode == 1
    expected = f"wholecall.errors.MissingExtra: {explain(purpose, extra)}"
    assert done.stderr.splitlines()[-1] == expected


@pytest.mark.parametrize(("arguments", "extra", "purpose"), COMMANDS)
def test_a_command_that_needs_an_extra_says_which(
    arguments: tuple[str, ...], extra: str, *, purpose: str, bare: Environment
) -> None:
    done = bare.run("wholecall", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"wholecall: {explain(purpose, extra)}\n"


def test_with_the_proxy_the_demo_serves_its_page(tmp_path: Path) -> None:
    served = Environment(tmp_path, ["cli", "proxy"])
    version = served.run("wholecall", "--version")
    assert version.stdout == f"wholecall {find_wheel().name.split('-')[1]}\n"
    demand_page(str(tmp_path / "bin" / "wholecall"))


@pytest.mark.skipif("UVX" not in os.environ, reason="`make dist` says where uvx is")
def test_the_demo_starts_with_uvx_alone(tmp_path: Path) -> None:
    wheel = f"wholecall[proxy] @ {find_wheel().as_uri()}"
    demand_page(os.environ["UVX"], "--cache-dir", str(tmp_path), "--from", wheel, "wholecall")


def demand_page(*command: str) -> None:
    """Start the demo with this command, open its page, and end it."""
    with subprocess.Popen(
        [*command, "demo", "--model", "demo", "--port", "0"],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as demo:
        assert demo.stdout is not None
        try:
            printed = (re.search(r"inspector +(http\S+)", line) for line in demo.stdout)
            page = next(filter(None, printed))[1]
            with urllib.request.urlopen(page, timeout=SECONDS) as response:  # noqa: S310 - loopback
                assert b"<title>" in response.read()
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()
        assert demo.wait(SECONDS) == 0


def test_a_type_checker_finds_the_types(bare: Environment, tmp_path: Path) -> None:
    """The package is marked as typed, and names of the door have their types."""
    program = tmp_path / "typed.py"
    program.write_text("import wholecall\nreveal_type(wholecall.ask_sync)\n")
    python = bare.folder / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(python), str(program)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "RunResult" in done.stdout
