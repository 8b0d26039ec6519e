"""Write docs/reference.md out of the docstrings: `.venv/bin/python docs/make_reference.py`.

A topic is a list of modules. A new public name in one of them comes into the reference by
itself, in the order of the source.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import wholecall
from definitions import PACKAGE, Definition, demand
from entries import write_entry

PAGE = Path(__file__).parent / "reference.md"
_HEAD = (
    "# Reference\n\n"
    "Every public name. Those that most programs need are imported from `wholecall` itself, the "
    "others from the module that their entry names. "
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
    Topic("Conversations", ("protocols.history_repair", "protocols.history")),
    Topic(
        "Calls written as text",
        (
            "dialects.dialect",
            "dialects.emulation.emulate",
            "dialects.dialect_registry",
            "dialects.rescue",
            "dialects.emulation.prompt",
            "dialects.learn.response_template",
            "dialect_files",
        ),
    ),
    Topic("Exceptions", ("errors",)),
)


# The public names that fewer programs need: each is imported from its module.
BY_MODULE = {
    "agent.approvals": "Approval Approvals Approver",
    "agent.budget": "Stop",
    "agent.call_runner": "ExecutorSettings",
    "agent.executor": "Executor",
    "agent.run": "Progress StopCondition",
    "agent.run_events": "Status ToolAbandoned ToolEndedLate ToolPrinted TurnRetried",
    "agent.tool_middleware": "Around RunNext",
    "arguments.coerce": "CoercionOptions",
    "arguments.feedback": (
        "Feedback SkipReason dropped_note make_feedback skipped timed_out tool_failed"
    ),
    "arguments.limits": "Limits",
    "arguments.parse": "preview",
    "arguments.validate": "admit require_admissible",
    "assembly.assembler": "Assembler CallIds",
    "assembly.json_scanner": "ObjectScanner",
    "dialect_files": "learn_dialect load_dialect save_dialect",
    "dialects.dialect": "Dialect",
    "dialects.dialect_registry": "Means Way way_for",
    "dialects.emulation.emulate": "Emulated",
    "dialects.emulation.prompt": "Prompt estimate_tokens",
    "dialects.learn.response_template": "load_response_template",
    "errors": "InadmissibleTools IncompleteArguments InvalidChoice MissingExtra ProtocolError "
    "ToolServerFailed UnknownModel UnknownProtocol UnreadableRecording UnreadableRequest "
    "UnusableDialect UnusableFunction",
    "events": "CallDelta CallPieces CallSealed Coercion Delta Fault FaultKind Hint HintGiven "
    "Inconsistent Oddity OfChoice Proved ProviderBlock Repair Repeated Terminated",
    "messages": "CallResult Choice Media Mode PastCall Result obeyed",
    "protocols.history": "Target",
    "protocols.history_repair": "Mended mend",
    "protocols.reader": "Reader",
    "stream": "should_execute_tool_calls",
    "tools.function_tool": "FunctionTool make_tool",
    "tools.mcp.server_config": "Restart",
    "tools.mcp.tool_definitions": "Pins",
    "tools.toolbox": "Offered",
    "upstreams.base": "Answer",
    "upstreams.http_connection": "Timeouts",
    "upstreams.providers": "NamedModel Route",
    "upstreams.replay": "RecordingUpstream ReplayUpstream ScriptedAnswer",
    "upstreams.retry": "RetryPolicy",
}


def list_public() -> dict[str, Definition]:
    """Return the definition of every public name."""
    elsewhere = {
        name: demand(f"{PACKAGE}.{module}", name)
        for module, names in BY_MODULE.items()
        for name in names.split()
    }
    return {name: demand(PACKAGE, name) for name in wholecall.__all__} | elsewhere


def write_reference() -> str:
    """The page."""
    public = list_public()
    chapters = sort_by_topic(public)
    lines = [_HEAD]
    lines += (f"- **{title}**: {_list(names)}" for title, names in chapters.items())
    for title, definitions in chapters.items():
        lines.append(f"\n## {title}")
        lines += (f"\n{_write(definition, public)}" for definition in definitions)
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


def _write(definition: Definition, public: dict[str, Definition]) -> str:
    title, _, rest = write_entry(definition, public).partition("\n\n")
    if definition.name in wholecall.__all__:
        return f"{title}\n\n{rest}"
    return f"{title}\n\nIn `{definition.module.name}`.\n\n{rest}"


def _list(definitions: list[Definition]) -> str:
    return ", ".join(f"`{definition.name}`" for definition in definitions)


if __name__ == "__main__":
    PAGE.write_text(write_reference(), encoding="utf-8")
