"""Write docs/reference.md out of the docstrings: `.venv/bin/python docs/make_reference.py`.

A topic is a list of modules. A new public name in one of them comes into the reference by
itself, in the order of the source.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import wholecall
from definitions import PACKAGE, Definition, find_public
from entries import write_entry

PAGE = Path(__file__).parent / "reference.md"
_HEAD = (
    "# Reference\n\n"
    "Every public name; each is imported from `wholecall` itself. "
    "This page is written by `docs/make_reference.py` out of the docstrings, and a test compares "
    "them: change the docstring, not the page.\n"
)


class Topic(NamedTuple):
    """A chapter: the public names of these modules and folders."""

    title: str
    modules: tuple[str, ...]


TOPICS = (
    Topic("Ask and run", ("agent.api", "agent.run", "agent.budget")),
    Topic("Events of a run", ("agent.run_events",)),
    Topic(
        "Tools",
        (
            "tools.function_tool",
            "tools.mcp.tool_definitions",
            "tools.mcp.server_config",
            "tools.mcp.toolset",
            "tools.tool",
            "tools.toolbox",
        ),
    ),
    Topic(
        "Approvals and the executor",
        ("agent.approvals", "agent.tool_middleware", "agent.call_runner", "agent.executor"),
    ),
    Topic(
        "Upstreams",
        (
            "upstreams.base",
            "upstreams.http",
            "upstreams.http_connection",
            "upstreams.providers",
            "upstreams.replay",
            "upstreams.retry",
        ),
    ),
    Topic(
        "Read a stream yourself",
        (
            "stream",
            "protocols",
            "assembly.assembler",
            "arguments.limits",
            "assembly.outcome",
            "arguments.parse",
            "assembly.json_scanner",
        ),
    ),
    Topic("Calls, deltas and events", ("events",)),
    Topic("Schemas", ("messages", "arguments.validate", "arguments.coerce")),
    Topic("What the model is told", ("arguments.feedback",)),
    Topic("Conversations", ("tool_choice", "protocols.history_repair", "protocols.history")),
    Topic(
        "Calls written as text",
        (
            "dialects.dialect",
            "dialects.emulation.emulate",
            "dialects.dialect_registry",
            "dialects.text_reader",
            "dialects.emulation.prompt",
            "dialects.learn.response_template",
            "dialect_files",
        ),
    ),
    Topic("Exceptions", ("errors",)),
)


def write_reference() -> str:
    """The page."""
    public = find_public(wholecall.__all__)
    chapters = sort_by_topic(public)
    lines = [_HEAD]
    lines += (f"- **{title}**: {_list(names)}" for title, names in chapters.items())
    for title, definitions in chapters.items():
        lines.append(f"\n## {title}")
        lines += (f"\n{write_entry(definition, public)}" for definition in definitions)
    return "\n".join(lines) + "\n"


def sort_by_topic(public: dict[str, Definition]) -> dict[str, list[Definition]]:
    """The definitions of each topic, in the order of the topic's modules and of the source."""
    chapters: dict[str, list[Definition]] = {topic.title: [] for topic in TOPICS}
    for definition in public.values():
        chapters[_find_topic(definition).title].append(definition)
    for definitions in chapters.values():
        definitions.sort(key=_place)
    return {title: definitions for title, definitions in chapters.items() if definitions}


def _find_topic(definition: Definition) -> Topic:
    """The topic that names the module, or the closest folder around it."""
    place = f"{definition.module.name.removeprefix(f'{PACKAGE}.')}."
    fitting = [
        (len(module), topic)
        for topic in TOPICS
        for module in topic.modules
        if place.startswith(f"{module}.")
    ]
    if not fitting:
        raise LookupError(f"{definition.name!r} of {place[:-1]!r} has no topic: see TOPICS")
    return max(fitting, key=lambda fit: fit[0])[1]


def _place(definition: Definition) -> tuple[int, str, int]:
    modules = [module for topic in TOPICS for module in topic.modules]
    name = definition.module.name.removeprefix(f"{PACKAGE}.")
    order = modules.index(name) if name in modules else len(modules)
    return order, name, definition.node.lineno


def _list(definitions: list[Definition]) -> str:
    return ", ".join(f"`{definition.name}`" for definition in definitions)


if __name__ == "__main__":
    PAGE.write_text(write_reference(), encoding="utf-8")
