"""Imports go one way, and the sans-IO folders reach neither clock, network nor disk."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "wholecall"

# A folder, or a module beside the folders, imports itself and what comes before it.
ORDER = (
    "events",
    "errors",
    "messages",
    "arguments",
    "assembly",
    "protocols",
    "dialects",
    "tools",
    "upstreams",
    "storage",
    "journal",
    "agent",
    "inspector",
    "proxy",
    "faults",
    "scripted_model",
    "integrations",
)
# The same inside two of them. What is not named composes the rest and comes last.
INNER_ORDER = {
    "proxy": ("config", "http", "observe", "handlers", "routes"),
    "dialects": (
        *("char_stream", "quotation", "parser_context", "dialect", "grammars", "engine"),
        *("formats", "dialect_registry", "normalized_text", "provenance"),
        *("emulation", "rescue", "learn"),
    ),
}
SANS_IO = frozenset({"events", "messages", "arguments", "assembly", "protocols", "dialects"})
SANS_IO_PACKAGES = frozenset({"msgspec", "jsonschema_rs", "wholecall"})
# The parts of the standard library by which a file would wait, look at the clock or reach out.
IO_MODULES = frozenset(
    {"asyncio", "concurrent", "http", "logging", "multiprocessing", "os", "pathlib", "selectors"}
    | {"shutil", "signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib"}
)

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


class Import(NamedTuple):
    line: int
    module: str


def find_imports(source: str, package: str) -> Iterator[Import]:
    """Yield every import in a file of `package`, relative ones resolved to full names."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = resolve(node, package)
                # `from wholecall import core` names a folder, not the public door.
                whole = [f"{base}.{alias.name}" for alias in names] if base == "wholecall" else []
                yield from (Import(node.lineno, module) for module in whole or [base])


def resolve(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")
    kept = parents[: len(parents) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def find_violations(file: str, source: str) -> list[str]:
    """Say what is wrong with each import of `file`, a path below src/wholecall."""
    place = file.removesuffix(".py").split("/")
    package = ".".join(["wholecall", *place[:-1]])
    return [
        f"src/wholecall/{file}:{found.line} imports {found.module!r}: {complaint}"
        for found in find_imports(source, package)
        if (complaint := complain(place, found.module))
    ]


def complain(place: list[str], module: str) -> str | None:
    root, *inside = module.split(".")
    if root == "wholecall":
        return complain_of_ours(place[0], inside[0] if inside else "__init__") or (
            complain_inside(place[0], place[1:], imported=inside[1:])
            if place[0] in INNER_ORDER and inside[:1] == place[:1]
            else None
        )
    if place[0] in SANS_IO:
        return complain_of_theirs(root)
    return None


def complain_of_ours(importer: str, imported: str) -> str | None:
    if importer not in ORDER:
        return None
    if imported not in ORDER:
        return f"{importer} may not import a module that only the user's side needs"
    if ORDER.index(imported) > ORDER.index(importer):
        return f"{imported} comes after {importer}"
    return None


def complain_inside(folder: str, importer: list[str], *, imported: list[str]) -> str | None:
    order = INNER_ORDER[folder]
    own, other = (
        order.index(names[0]) if names and names[0] in order else len(order)
        for names in (importer, imported)
    )
    if other > own:
        return f"{folder}/{imported[0] if imported else ''} comes after {folder}/{importer[0]}"
    return None


def complain_of_theirs(root: str) -> str | None:
    if root in IO_MODULES:
        return "a sans-IO folder takes values and returns values"
    if root not in sys.stdlib_module_names | SANS_IO_PACKAGES:
        return "a sans-IO folder needs only the standard library, msgspec and jsonschema_rs"
    return None


@pytest.mark.parametrize("file", FILES)
def test_imports_go_one_way(file: str) -> None:
    violations = find_violations(file, (PACKAGE / file).read_text("utf-8"))
    assert not violations, "\n".join(violations)


def test_every_folder_has_its_place_in_the_order() -> None:
    folders = {file.split("/")[0] for file in FILES if "/" in file}
    assert "assembly" in folders
    assert folders <= {*ORDER, "cli"}
    rooms = {
        file.split("/")[1] for file in FILES if file.startswith("proxy/") and file.count("/") > 1
    }
    assert rooms == set(INNER_ORDER["proxy"])
    inside = {file.split("/")[1].removesuffix(".py") for file in FILES if file[:9] == "dialects/"}
    assert inside - {"__init__"} == set(INNER_ORDER["dialects"])


@pytest.mark.parametrize(
    ("file", "source", "culprit"),
    [
        ("assembly/verdict.py", "import json\nimport os.path\n", "verdict.py:2 imports 'os.path'"),
        ("arguments/parse.py", "from urllib.parse import quote", "imports 'urllib.parse'"),
        ("dialects/deep/a.py", "import time", "dialects/deep/a.py:1 imports 'time'"),
        ("events.py", "import time", "events.py:1 imports 'time'"),
        ("protocols/reader.py", "import pydantic", "protocols/reader.py:1 imports 'pydantic'"),
        ("assembly/verdict.py", "def f():\n    import asyncio", "verdict.py:2 imports 'asyncio'"),
        ("assembly/verdict.py", "from wholecall.protocols import a", "'wholecall.protocols'"),
        ("arguments/parse.py", "import wholecall.assembly.verdict", "'wholecall.assembly.verdict'"),
        ("assembly/verdict.py", "from wholecall import tools", "imports 'wholecall.tools'"),
        ("assembly/__init__.py", "from ..agent import loop", "imports 'wholecall.agent'"),
        ("assembly/verdict.py", "from .. import stream", "imports 'wholecall.stream'"),
        ("agent/loop.py", "from wholecall import Call", "imports 'wholecall.Call'"),
        ("agent/loop.py", "import wholecall", "imports 'wholecall'"),
        ("faults/script.py", "from wholecall.cli.main import main", "imports 'wholecall.cli.main'"),
        ("events.py", "from wholecall import errors", "imports 'wholecall.errors'"),
        ("events.py", "from .errors import RunFailed", "imports 'wholecall.errors'"),
        (
            "proxy/http/a.py",
            "from wholecall.proxy.observe import taps",
            "'wholecall.proxy.observe'",
        ),
        ("proxy/routes/a.py", "from wholecall.proxy.app import a", "'wholecall.proxy.app'"),
        ("proxy/config/a.py", "from wholecall import proxy", "imports 'wholecall.proxy'"),
        ("dialects/engine.py", "from wholecall.dialects.formats import a", "dialects.formats"),
        (
            "dialects/dialect_registry.py",
            "def f():\n    from wholecall.dialects.emulation.a import b",
            "dialects/emulation comes after dialects/dialect_registry",
        ),
    ],
)
def test_a_violation_is_caught_and_named(file: str, source: str, *, culprit: str) -> None:
    [violation] = find_violations(file, source)
    assert culprit in violation


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("assembly/a.py", "import re, msgspec, jsonschema_rs\nfrom collections import abc"),
        ("assembly/a.py", "from wholecall.events import Call\nfrom . import routing"),
        (
            "assembly/a.py",
            "from wholecall.errors import ProtocolError\nfrom wholecall import errors",
        ),
        (
            "protocols/a.py",
            "from wholecall import assembly\nfrom wholecall.assembly import verdict",
        ),
        ("proxy/app.py", "import asyncio, starlette\nfrom wholecall.agent import loop"),
        ("proxy/app.py", "from wholecall.proxy.routes import models\nfrom . import server"),
        ("proxy/routes/a.py", "from wholecall.proxy.http import refusals"),
        ("dialects/formats/a.py", "from wholecall.dialects.grammars.b import c"),
        ("__init__.py", "from wholecall.events import Call\nfrom .faults import script"),
        ("cli/main.py", "from wholecall import stream\nimport wholecall.proxy.app\nimport time"),
        ("errors.py", "from enum import Enum"),
    ],
)
def test_a_lawful_import_is_let_through(file: str, source: str) -> None:
    assert find_violations(file, source) == []
