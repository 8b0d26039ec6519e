"""The structure of the package only gets better: no figure may go over its limit.

A limit is what was measured when it was last lowered. A change that lowers a figure lowers its
limit in the same commit; `.venv/bin/python tests/house.py` and `tests/walk.py` print what is.
"""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import pytest

import house
import walk

LIMITS = {
    "modules": 230,
    "small modules with one importer": 0,
    "public class names used twice": 0,
    "file names used twice": 0,
    "file names that are gerunds": 0,
    "modules in the longest row": 16,
    "import layers in the deepest folder": 12,
    "functions over 46 lines": 0,
    "functions nested deeper than 3": 0,
    "classes with more than 14 fields": 0,
    "fields of the widest class": 14,
    "lines of code": 53300,
    "odd words in 1,000 of comments": 0.3,
    "odd words in 1,000 of docs": 1.2,
    "docstrings of 100 that ask": 0.5,
    "words in ARCHITECTURE.md": 1500,
}
# One `POST /v1/messages`: gate, streamed, one tool, chat completions behind it.
REQUEST_FILES, REQUEST_CHANGES = 60, 320
# From `Reader.end` to the released call.
END_FILES, END_CHANGES = 10, 26
TESTS = Path(__file__).parent
# Tests of runs and stores together: of no module more than of the others.
OF_ALL_MODULES = {
    "journal": (
        *("cut_rows", "durable_runs", "fleet", "journal_stores", "killed_process"),
        "shared_proxies",
    ),
}


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return house.measure()


@pytest.mark.parametrize("figure", LIMITS)
def test_no_figure_is_over_its_limit(figure: str, measured: dict[str, float]) -> None:
    assert measured[figure] <= LIMITS[figure]


def test_every_figure_has_a_limit(measured: dict[str, float]) -> None:
    assert set(measured) == set(LIMITS)


def list_strangers() -> list[str]:
    """List the test files in a folder of the package that name no module of that folder."""
    strangers = []
    for path in TESTS.rglob("test_*.py"):
        folder = path.parent.relative_to(TESTS)
        own = house.ROOT / "src" / "wholecall" / folder
        if folder == Path() or not (own / "__init__.py").exists():
            continue
        names = [found.stem for found in own.iterdir()] + list(OF_ALL_MODULES.get(str(folder), ()))
        stem = path.stem.removeprefix("test_")
        if not any(stem == name or stem.startswith(f"{name}_") for name in names):
            strangers.append(str(path.relative_to(TESTS)))
    return strangers


def test_a_test_file_begins_with_the_name_of_what_it_tests() -> None:
    assert list_strangers() == []


def test_a_request_walks_no_further() -> None:
    walked = asyncio.run(walk.walk_request())
    assert len(walked.files) <= REQUEST_FILES, walked.files
    assert walked.changes <= REQUEST_CHANGES


def test_the_end_of_a_turn_walks_no_further() -> None:
    walked = walk.walk_end()
    assert len(walked.files) <= END_FILES, walked.files
    assert walked.changes <= END_CHANGES


def test_a_walk_counts_files_and_changes() -> None:
    nowhere = walk.Walk()
    assert (nowhere.files, nowhere.changes) == ([], 0)
    walked = walk.walk_end()
    assert "protocols/reader.py" in walked.files
    assert len(walked.files) - 1 <= walked.changes < sum(walked.calls.values())


# ── The figures themselves, on small packages ───────────────────────────────────────


def package(**sources: str) -> dict[str, house.Module]:
    """A package in which `_` parts a folder from its modules; each is importable."""
    names = {key.replace("_", "."): source for key, source in sources.items()}
    folders = {name.rpartition(".")[0] for name in names if "." in name}
    named = {"": "", **dict.fromkeys(folders, ""), **names}
    full = {f"wholecall.{name}".rstrip("."): textwrap.dedent(text) for name, text in named.items()}
    return {name: house.Module(name, source) for name, source in full.items()}


LARGE = "\n".join(f"x{number} = {number}" for number in range(house.SMALL))
USER = "from wholecall.core.a import x\n"


@pytest.mark.parametrize(
    ("sources", "small"),
    [
        ({"core_a": "x = 1", "core_b": USER + LARGE}, ["wholecall.core.a"]),
        ({"core_a": LARGE, "core_b": USER + LARGE}, []),
        ({"core_a": "x = 1", "core_b": USER + LARGE, "core_c": USER + LARGE}, []),
        ({"core_a": "x = 1", "core_b": LARGE}, []),
        ({"core_a": "x = 1", "core_b": "from wholecall.core import a\n" + LARGE}, None),
        ({"core_a": "x = 1", "core_b": f"def f():\n    import wholecall.core.a\n{LARGE}"}, None),
    ],
)
def test_small_modules_with_one_importer(sources: dict[str, str], small: list[str] | None) -> None:
    assert house.list_small(package(**sources)) == (
        ["wholecall.core.a"] if small is None else small
    )


@pytest.mark.parametrize(
    ("sources", "shared"),
    [
        ({"a": "class One: ...", "b": "class One: ..."}, ["One"]),
        ({"a": "class One: ...", "b": "class Two: ..."}, []),
        ({"a": "class _One: ...", "b": "class _One: ..."}, []),
        ({"a": "class One: ...\nclass Two:\n    class One: ..."}, []),
        (
            {"protocols_x_stream": "class One: ...", "protocols_y_stream": "class One: ..."},
            [],
        ),
        (
            {"protocols_x_stream": "class One: ...", "protocols_y_request": "class One: ..."},
            ["One"],
        ),
    ],
)
def test_class_names_that_stand_for_two_things(sources: dict[str, str], shared: list[str]) -> None:
    assert house.list_shared_classes(package(**sources)) == shared


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (["core_a", "proxy_a"], ["a"]),
        (["core_a", "proxy_b"], []),
        (["protocols_x_stream", "protocols_y_stream"], []),
        (["core_config_a", "proxy_config_b"], []),
    ],
)
def test_file_names_that_stand_for_two_modules(names: list[str], shared: list[str]) -> None:
    assert house.list_shared_files(package(**dict.fromkeys(names, ""))) == shared


@pytest.mark.parametrize(
    ("name", "found"),
    [("serving", True), ("routing", False), ("string", False), ("ring", False), ("errors", False)],
)
def test_gerunds(name: str, *, found: bool) -> None:
    assert bool(house.list_gerunds(package(**{name: ""}))) is found


def test_rows_are_counted_by_folder() -> None:
    assert house.longest_row(package(a="", core_a="", core_b="", core_c="", core_deep_d="")) == 3


IMPORTS_A = "from wholecall.core.a import x"


@pytest.mark.parametrize(
    ("sources", "layers"),
    [
        ({"core_a": "", "core_b": ""}, 1),
        ({"core_a": "", "core_b": IMPORTS_A}, 2),
        ({"core_a": "", "core_b": IMPORTS_A, "core_c": "import wholecall.core.b"}, 3),
        ({"core_a": "", "core_b": f"def f():\n    {IMPORTS_A}"}, 1),
        ({"core_a": "", "core_b": f"if TYPE_CHECKING:\n    {IMPORTS_A}"}, 1),
        ({"core_a": "", "core_b": f"try:\n    {IMPORTS_A}\nfinally: ..."}, 2),
        ({"core_a": "", "proxy_b": IMPORTS_A}, 1),
    ],
)
def test_layers_inside_a_folder(sources: dict[str, str], layers: int) -> None:
    assert house.deepest_layers(package(**sources)) == layers


def test_a_cycle_has_no_layers() -> None:
    cycle = package(core_a="import wholecall.core.b", core_b=IMPORTS_A)
    with pytest.raises(ValueError, match=r"import each other: \['wholecall.core.a', "):
        house.deepest_layers(cycle)


def test_long_functions() -> None:
    body = "\n".join(["    pass"] * (house.LONG - 1))
    made = package(a=f"def short():\n{body}\n\nasync def long():\n{body}\n    pass\n")
    assert house.list_long_functions(made) == ["wholecall.a.long"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("if a:\n  for b in c:\n   while d:\n    pass", False),
        ("if a:\n  for b in c:\n   while d:\n    with e: pass", True),
        ("if a: pass\n else:\n  try:\n   with e:\n    if f: pass\n  finally: pass", True),
        ("if a: pass\n elif b: pass\n elif c: pass\n elif d:\n  for e in f: pass", False),
        ("if a:\n  for b in c:\n   while d:\n    def g():\n     if h: pass", False),
    ],
)
def test_deep_functions(source: str, *, found: bool) -> None:
    assert bool(house.list_deep_functions(package(a=f"def f():\n {source}"))) is found


def test_fields_are_counted_once() -> None:
    made = package(a="class A:\n  def __init__(self):\n    self.a = self.b = 1\n    self.a = 2\n")
    assert house.count_fields(made) == {"wholecall.a:2": 2}
    assert house.list_wide_classes(made) == []
    wide = "\n".join(f"    self.f{number} = 0" for number in range(house.MANY_FIELDS + 1))
    made = package(a=f"class A:\n  def __init__(self):\n{wide}\n")
    assert house.list_wide_classes(made) == ["wholecall.a:2"]


def test_lines_of_code() -> None:
    source = (
        '"""A docstring.\n\nOf three lines."""\n\nX = (  # a comment\n    1\n)\n"""About X."""\n'
    )
    [_, module] = package(a=source).values()
    assert module.code_lines == 3
    assert module.prose == ["A docstring.\n\nOf three lines.", "About X.", "# a comment"]


@pytest.mark.parametrize(
    ("text", "odd"),
    [("one two three four", 0), ("Told what is no call", 400), ("untold stories", 0), ("", 0)],
)
def test_odd_words(text: str, odd: float) -> None:
    assert house.odd_words([text]) == odd


def test_docstrings_that_ask() -> None:
    source = '"""What it is."""\ndef f():\n    """Return it."""\ndef g():\n    """Whatever."""\n'
    made = package(a=source, b='"""Whether."""')
    assert house.questions(made) == 50
