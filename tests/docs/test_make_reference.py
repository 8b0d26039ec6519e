"""docs/reference.md says what the docstrings say."""

from importlib import import_module

import pytest

import wholecall
from definitions import Definition, Module
from make_reference import BY_MODULE, PAGE, TOPICS, list_public, sort_by_topic, write_reference
from test_exports import explains_itself

NAMES = [(module, name) for module, names in BY_MODULE.items() for name in names.split()]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == write_reference(), (
        "docs/reference.md is stale: run .venv/bin/python docs/make_reference.py"
    )


def test_every_public_name_stands_in_one_topic() -> None:
    chapters = sort_by_topic(list_public())
    names = [definition.name for definitions in chapters.values() for definition in definitions]
    assert sorted(names) == sorted([*wholecall.__all__, *(name for _, name in NAMES)])
    assert list(chapters) == [topic.title for topic in TOPICS]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_can_be_imported_from_the_module_that_its_entry_names(
    module: str, name: str
) -> None:
    value = getattr(import_module(f"wholecall.{module}"), name)
    assert explains_itself(name, value), f"{name!r} has no docstring"
    assert name not in wholecall.__all__
    assert f"### {name}\n\nIn `wholecall.{module}`.\n" in PAGE.read_text("utf-8")


def test_the_closest_folder_decides_and_the_order_is_the_sources() -> None:
    source = "def second(): ...\ndef first(): ...\n"
    public = {
        f"{module} {name}": define(f"wholecall.{module}", source, name=name)
        for module in ("events", "assembly.json_scanner", "agent.budget", "agent.run")
        for name in ("first", "second")
    }
    chapters = {
        title: [(each.module.name.removeprefix("wholecall."), each.name) for each in definitions]
        for title, definitions in sort_by_topic(public).items()
    }
    assert chapters == {
        "Ask and run": [
            ("agent.run", "second"),
            ("agent.run", "first"),
            ("agent.budget", "second"),
            ("agent.budget", "first"),
        ],
        "Read a stream yourself": [
            ("assembly.json_scanner", "second"),
            ("assembly.json_scanner", "first"),
        ],
        "Calls, deltas and events": [("events", "second"), ("events", "first")],
    }


def test_a_module_without_a_topic_is_an_error() -> None:
    found = define("wholecall.nowhere", "def lost(): ...", name="lost")
    with pytest.raises(LookupError, match="'lost' of 'nowhere' has no topic"):
        sort_by_topic({"lost": found})


def define(module: str, source: str, *, name: str) -> Definition:
    found = Module(module, source).find(name)
    assert found is not None
    return found
