"""docs/tools.md lists every option of a tool, with its default."""

import re
from dataclasses import fields
from pathlib import Path

from wholecall.tools.function_tool import ToolOptions
from wholecall.tools.tool import Tool

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
ROW = re.compile(r"^\| `(?P<option>\w+)` \| (?P<default>[^|]+) \| (?P<meaning>[^|]+) \|$", re.M)
DERIVED = {"name", "description", "start"}
"""They come from the function, or from other options."""


def read_table() -> dict[str, str]:
    options = PAGE.read_text("utf-8").split("\n## Options\n")[1].split("\n## ")[0]
    return {row["option"]: row["default"].strip("`") for row in ROW.finditer(options)}


def test_the_table_has_every_option_and_no_other() -> None:
    assert set(read_table()) == set(ToolOptions.__annotations__)


def test_the_defaults_are_those_of_the_code() -> None:
    defaults = {each.name: str(each.default) for each in fields(Tool)}
    table = read_table()
    assert {option: table[option] for option in table.keys() - DERIVED} == {
        option: defaults[option] for option in table.keys() - DERIVED
    }
