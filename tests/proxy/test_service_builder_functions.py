"""Python functions that a configuration names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.load import load
from wholecall.proxy.config.schema import ConfigError
from wholecall.proxy.service_builder import load_functions

MODULE = '''\
import wholecall

LIMIT = 5


def search(query: str) -> str:
    """Find something."""
    return query


def untyped(query):
    return query


@wholecall.tool(read_only=True)
def marked(query: str) -> str:
    """Find something."""
    return query


plain = marked.tool
'''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a module of its own, which is forgotten afterwards."""
    (tmp_path / "k1_shop.py").write_text(MODULE, "utf-8")
    (tmp_path / "k1_broken.py").write_text("1 / 0", "utf-8")
    (tmp_path / "k1_ending.py").write_text("import sys\nsys.exit(3)", "utf-8")
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    for name in ("k1_shop", "k1_broken", "k1_ending"):
        sys.modules.pop(name, None)


def test_functions_are_found_beside_the_file(folder: Path) -> None:
    text = """\
tools:
  - python: k1_shop:search
  - {mcp: a, command: b}
  - python: k1_shop:marked
"""
    search, marked = load_functions(load_text(folder, text))
    assert (search.name, search.read_only) == ("search", False)
    assert (marked.name, marked.read_only) == ("marked", True)
    assert sys.path[-1] == str(folder)
    load_functions(load_text(folder, "tools: [{python: k1_shop:plain}]"))
    assert sys.path.count(str(folder)) == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("k1_nothing:search", "there is no module 'k1_nothing'"),
        ("k1_broken:search", "'k1_broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("k1_ending:search", "'k1_ending' cannot be imported: it ends the program (sys.exit(3))"),
        ("k1_shop:serch", "has no function 'serch'; did you mean 'search'?"),
        ("k1_shop:qqq", "the module 'k1_shop' has no function 'qqq'"),
        ("k1_shop:LIMIT", "'k1_shop:LIMIT' is not a function"),
        ("k1_shop:untyped", "has no type hint"),
    ],
)
def test_what_cannot_be_a_tool_is_named_with_its_line(
    folder: Path, name: str, *, problem: str
) -> None:
    loaded = load_text(folder, f"tools:\n  - python: k1_shop:search\n  - python: {name}\n")
    with pytest.raises(ConfigError) as refused:
        load_functions(loaded)
    assert (refused.value.line, refused.value.problems[0].setting) == (3, "tools.1.python")
    assert problem in refused.value.message


def test_without_a_file_the_current_folder_is_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    loaded = load(None, {"WHOLECALL__TOOLS": "[{python: k1_shop:search}]"})
    [tool] = load_functions(loaded)
    assert tool.name == "search"
