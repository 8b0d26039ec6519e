"""Tokens that emulation adds to a request with ten tools, in every dialect that is prompted.

    .venv/bin/python bench/prompts.py            print the table
    .venv/bin/python bench/prompts.py --write    and put it into docs/tools-without-native.md

The tokens are estimates (`wholecall.dialects.emulation.prompt`), so the table is the same on every
machine.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tables import markdown, replace_section
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.prompt import estimate_tokens, write_definitions, write_prompt
from wholecall.dialects.rescue import encode
from wholecall.messages import ToolSpec, read_offer


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    """A definition as a client sends it; what a parameter is for stands behind its type."""
    schema = {
        key: {"type": kind, "description": words} for key, (kind, words) in properties.items()
    }
    required = list(schema)[:1]
    parameters = {"type": "object", "properties": schema, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TEN: list[dict[str, Any]] = [
    tool("get_weather", "The weather in a city.", city=("string", "Its name"),
         days=("integer", "How many days ahead")),
    tool("get_time", "The time in a city.", city=("string", "Its name")),
    tool("search_web", "Search the web.", query=("string", "What to search for"),
         limit=("integer", "How many results"), recent=("boolean", "Only this year's")),
    tool("read_file", "Read a file.", path=("string", "Where it is"),
         first=("integer", "The first line"), last=("integer", "The last line")),
    tool("write_file", "Write a file, or replace it.", path=("string", "Where it goes"),
         content=("string", "All of it")),
    tool("list_files", "List the files of a folder.", folder=("string", "Where to look"),
         pattern=("string", "Which names, as in *.py")),
    tool("run_query", "Run a query on the database.", sql=("string", "One SELECT")),
    tool("send_mail", "Send a mail.", to=("array", "The addresses"),
         subject=("string", "In one line"), body=("string", "Plain text")),
    tool("create_event", "Put an event into the calendar.", title=("string", "In a few words"),
         start=("string", "As in 2026-01-31T12:00"), minutes=("integer", "How long")),
    tool("convert_money", "Convert an amount of money.", amount=("number", "How much"),
         source=("string", "As in EUR"), target=("string", "As in USD")),
]  # fmt: skip
CALL: tuple[str, dict[str, Any]] = ("get_weather", {"city": "Oslo", "days": 3})


def rows() -> list[list[str]]:
    offer: dict[str, ToolSpec] = dict(read_offer(TEN))
    tools = estimate_tokens(write_definitions(offer))
    found: list[tuple[int, list[str]]] = []
    for name, dialect in DIALECTS.items():
        if dialect.template is None:
            continue
        prompt = estimate_tokens(write_prompt(dialect, offer))
        call = estimate_tokens(encode(name, [CALL]))
        texts = [f"`{name}`", str(prompt), str(prompt - tools), str(call)]
        found.append((prompt, texts))
    return [texts for _, texts in sorted(found)]


def main() -> None:
    as_sent = estimate_tokens(json.dumps(TEN))
    header = ["dialect", "prompt of ten tools", "of it not the tools", "one call"]
    table = markdown(header, [["the tools as a client sends them", str(as_sent), "", ""], *rows()])
    print(table)
    if "--write" in sys.argv:
        replace_section("tools-without-native.md", "prompts", body=table)


if __name__ == "__main__":
    main()
