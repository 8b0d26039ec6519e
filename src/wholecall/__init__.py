"""Wholecall makes any model's tool calls safe to run.

It assembles calls from a stream, proves each one whole, checks it against its schema
and says exactly what was wrong with the ones that must not run.

The names that most programs need are here; docs/reference.md has the others, each with its module.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from wholecall.errors import RunCancelled, RunFailed, UpstreamError, WholecallError
from wholecall.events import (
    Call,
    Ended,
    Event,
    Evidence,
    Grew,
    Opened,
    Outcome,
    Problem,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Start,
    Text,
    Usage,
)
from wholecall.messages import Message, Request, Role, ToolSpec
from wholecall.stream import (
    ToolCallBuffer,
    ToolUseBuffer,
    assemble,
    assemble_response,
    events,
    events_sync,
    is_complete_json,
)

if TYPE_CHECKING:
    from wholecall.agent.api import ask, ask_sync, resume, run
    from wholecall.agent.budget import RunLimits
    from wholecall.agent.run import Run, RunResult
    from wholecall.agent.run_events import (
        ApprovalAnswered,
        ApprovalAsked,
        RunEnded,
        RunEvent,
        ToolEnded,
        ToolReported,
        ToolStarted,
        TurnStarted,
    )
    from wholecall.arguments.feedback import feedback
    from wholecall.dialects.emulation.emulate import emulate
    from wholecall.dialects.rescue import parse_text
    from wholecall.protocols.history_repair import repair_history
    from wholecall.tools.function_tool import tool
    from wholecall.tools.mcp.server_config import McpServer
    from wholecall.tools.mcp.toolset import McpTools
    from wholecall.tools.tool import Context, Failed, Retry, Tool
    from wholecall.tools.toolbox import Toolbox
    from wholecall.upstreams.http import HttpSettings, HttpUpstream
    from wholecall.upstreams.providers import find_upstream

__version__ = "0.1.0"
__all__ = [
    "ApprovalAnswered",
    "ApprovalAsked",
    "Call",
    "Context",
    "Ended",
    "Event",
    "Evidence",
    "Failed",
    "Grew",
    "HttpSettings",
    "HttpUpstream",
    "McpServer",
    "McpTools",
    "Message",
    "Opened",
    "Outcome",
    "Problem",
    "Reason",
    "Reasoning",
    "Rejected",
    "Released",
    "Request",
    "Retry",
    "Role",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunLimits",
    "RunResult",
    "Start",
    "Text",
    "Tool",
    "ToolCallBuffer",
    "ToolEnded",
    "ToolReported",
    "ToolSpec",
    "ToolStarted",
    "ToolUseBuffer",
    "Toolbox",
    "TurnStarted",
    "UpstreamError",
    "Usage",
    "WholecallError",
    "ask",
    "ask_sync",
    "assemble",
    "assemble_response",
    "emulate",
    "events",
    "events_sync",
    "feedback",
    "find_upstream",
    "is_complete_json",
    "parse_text",
    "repair_history",
    "resume",
    "run",
    "tool",
]

# The rest is imported on first use: a program that only reads streams loads no HTTP client and no
# formats of calls written as text. `events` cannot wait, because a module has the same name.
_LATER = {
    "agent.api": "ask ask_sync resume run",
    "agent.budget": "RunLimits",
    "agent.run": "Run RunResult",
    "agent.run_events": "ApprovalAnswered ApprovalAsked RunEnded RunEvent ToolEnded ToolReported "
    "ToolStarted TurnStarted",
    "arguments.feedback": "feedback",
    "dialects.emulation.emulate": "emulate",
    "dialects.rescue": "parse_text",
    "protocols.history_repair": "repair_history",
    "tools.function_tool": "tool",
    "tools.mcp.server_config": "McpServer",
    "tools.mcp.toolset": "McpTools",
    "tools.tool": "Context Failed Retry Tool",
    "tools.toolbox": "Toolbox",
    "upstreams.http": "HttpSettings HttpUpstream",
    "upstreams.providers": "find_upstream",
}
_MODULES = {name: module for module, names in _LATER.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
