"""Imports go one way, and the sans-IO folders reach neither clock, network nor disk."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "wholecall"

# A folder, and a top-level module that folders import, imports what comes before it in this order.
ORDER = (
    "core",
    "protocols",
    "dialects",
    "tools",
    "upstreams",
    "runs",
    "files",
    "inspector",
    "proxy",
    "faults",
    "demo",
)
SANS_IO = frozenset({"core", "protocols", "dialects"})
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
    folder = place[0] if len(place) > 1 else None
    if root == "wholecall":
        return complain_of_ours(folder or place[0], inside[0] if inside else "__init__")
    if (folder or place[0]) in SANS_IO:
        return complain_of_theirs(root)
    return None


def complain_of_ours(importer: str, imported: str) -> str | None:
    if importer == "errors":
        return "errors.py imports nothing of ours"
    if importer not in ORDER or imported == "errors":
        return None
    if imported not in ORDER:
        return f"{importer}/ may not import a top-level module other than errors"
    if ORDER.index(imported) > ORDER.index(importer):
        return f"{imported}/ stands below {importer}/"
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
    assert "protocols" in folders
    assert folders <= set(ORDER)


@pytest.mark.parametrize(
    ("file", "source", "culprit"),
    [
        ("core/scan.py", "import json\nimport os.path\n", "core/scan.py:2 imports 'os.path'"),
        ("core/scan.py", "from urllib.parse import quote", "core/scan.py:1 imports 'urllib.parse'"),
        ("dialects/deep/a.py", "import time", "dialects/deep/a.py:1 imports 'time'"),
        ("protocols/sse.py", "import pydantic", "protocols/sse.py:1 imports 'pydantic'"),
        ("core/scan.py", "def f():\n    import asyncio", "core/scan.py:2 imports 'asyncio'"),
        ("core/scan.py", "import wholecall.protocols.sse", "imports 'wholecall.protocols.sse'"),
        ("core/scan.py", "import wholecall.runs.loop", "imports 'wholecall.runs.loop'"),
        ("core/scan.py", "from wholecall import tools", "imports 'wholecall.tools'"),
        ("tools/__init__.py", "from ..proxy import app", "imports 'wholecall.proxy'"),
        ("core/scan.py", "from .. import __main__", "imports 'wholecall.__main__'"),
        ("runs/loop.py", "from wholecall import Call", "imports 'wholecall.Call'"),
        ("runs/loop.py", "import wholecall", "imports 'wholecall'"),
        ("faults/stream.py", "from wholecall.cli import main", "imports 'wholecall.cli'"),
        ("errors.py", "import wholecall.core.values", "imports 'wholecall.core.values'"),
        ("errors.py", "from .proxy.app import Proxy", "imports 'wholecall.proxy.app'"),
    ],
)
def test_a_violation_is_caught_and_named(file: str, source: str, *, culprit: str) -> None:
    [violation] = find_violations(file, source)
    assert culprit in violation


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("core/scan.py", "import re, msgspec, jsonschema_rs\nfrom collections import abc"),
        ("core/scan.py", "from wholecall.core.values import Call\nfrom . import limits"),
        (
            "core/scan.py",
            "from wholecall.errors import ProtocolError\nfrom wholecall import errors",
        ),
        ("protocols/sse.py", "from wholecall import protocols\nfrom wholecall import errors"),
        ("proxy/app.py", "import asyncio, starlette\nfrom wholecall.runs import loop"),
        ("__init__.py", "from wholecall.core.values import Call\nfrom .faults import stream"),
        ("__main__.py", "from wholecall import reading\nimport wholecall.proxy.app\nimport time"),
        ("errors.py", "from enum import Enum"),
    ],
)
def test_a_lawful_import_is_let_through(file: str, source: str) -> None:
    assert find_violations(file, source) == []
