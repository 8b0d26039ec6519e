"""Wholecall makes any model's tool calls safe to run.

It assembles calls from a stream, proves each one whole, checks it against its schema
and says exactly what was wrong with the ones that must not run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from wholecall.arguments.coerce import CoercionOptions
from wholecall.arguments.feedback import (
    Feedback,
    SkipReason,
    dropped_note,
    feedback,
    make_feedback,
    skipped,
    timed_out,
    tool_failed,
)
from wholecall.arguments.limits import Limits
from wholecall.arguments.parse import preview
from wholecall.arguments.validate import admit, require_admissible
from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.assembly.json_scanner import ObjectScanner
from wholecall.assembly.outcome import Outcome
from wholecall.dialects.dialect import Dialect
from wholecall.dialects.dialect_registry import Means, Way, way_for
from wholecall.dialects.emulation.emulate import Emulated, emulate
from wholecall.dialects.emulation.prompt import Prompt, estimate_tokens
from wholecall.dialects.learn.response_template import load_response_template
from wholecall.dialects.text_reader import parse_text
from wholecall.errors import (
    InadmissibleTools,
    IncompleteArguments,
    InvalidChoice,
    MissingExtra,
    ProtocolError,
    RunCancelled,
    RunFailed,
    ToolServerFailed,
    UnknownModel,
    UnknownProtocol,
    UnreadableRecording,
    UnreadableRequest,
    UnusableDialect,
    UnusableFunction,
    UpstreamError,
    WholecallError,
)
from wholecall.events import (
    Call,
    CallDelta,
    CallPieces,
    CallSealed,
    Coercion,
    Delta,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    OfChoice,
    Opened,
    Problem,
    Proved,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repair,
    Repeated,
    Start,
    Terminated,
    Text,
    Usage,
)
from wholecall.messages import CallResult, Media, Message, PastCall, Request, Result, Role, ToolSpec
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import Mended, mend, repair_history
from wholecall.protocols.reader import Reader
from wholecall.stream import (
    ToolCallBuffer,
    ToolUseBuffer,
    assemble,
    assemble_response,
    events,
    events_sync,
    is_complete_json,
    should_execute_tool_calls,
)
from wholecall.tool_choice import Choice, Mode, obeyed

if TYPE_CHECKING:
    from wholecall.agent.api import ask, ask_sync, run
    from wholecall.agent.approvals import Approval, Approvals, Approver
    from wholecall.agent.budget import RunLimits, Stop
    from wholecall.agent.call_runner import ExecutorSettings
    from wholecall.agent.executor import Executor
    from wholecall.agent.run import Progress, Run, RunResult, StopCondition
    from wholecall.agent.run_events import (
        ApprovalAnswered,
        ApprovalAsked,
        RunEnded,
        RunEvent,
        Status,
        ToolAbandoned,
        ToolEnded,
        ToolEndedLate,
        ToolPrinted,
        ToolReported,
        ToolStarted,
        TurnRetried,
        TurnStarted,
    )
    from wholecall.agent.tool_middleware import Around, RunNext
    from wholecall.dialect_files import learn_dialect, load_dialect, save_dialect
    from wholecall.tools.function_tool import FunctionTool, make_tool, tool
    from wholecall.tools.mcp.server_config import McpServer, Restart
    from wholecall.tools.mcp.tool_definitions import Pins
    from wholecall.tools.mcp.toolset import McpTools
    from wholecall.tools.tool import Context, Failed, Retry, Tool
    from wholecall.tools.toolbox import Offered, Toolbox
    from wholecall.upstreams.base import Answer, Upstream
    from wholecall.upstreams.http import HttpSettings, HttpUpstream
    from wholecall.upstreams.http_connection import Timeouts
    from wholecall.upstreams.providers import NamedModel, Route, find_upstream
    from wholecall.upstreams.replay import RecordingUpstream, ReplayUpstream, ScriptedAnswer
    from wholecall.upstreams.retry import RetryPolicy

__all__ = [
    "Answer",
    "Approval",
    "ApprovalAnswered",
    "ApprovalAsked",
    "Approvals",
    "Approver",
    "Around",
    "Assembler",
    "Call",
    "CallDelta",
    "CallIds",
    "CallPieces",
    "CallResult",
    "CallSealed",
    "Choice",
    "Coercion",
    "CoercionOptions",
    "Context",
    "Delta",
    "Dialect",
    "Emulated",
    "Ended",
    "Event",
    "Evidence",
    "Executor",
    "ExecutorSettings",
    "Failed",
    "Fault",
    "FaultKind",
    "Feedback",
    "FunctionTool",
    "Grew",
    "Hint",
    "HintGiven",
    "HttpSettings",
    "HttpUpstream",
    "InadmissibleTools",
    "IncompleteArguments",
    "Inconsistent",
    "InvalidChoice",
    "Limits",
    "McpServer",
    "McpTools",
    "Means",
    "Media",
    "Mended",
    "Message",
    "MissingExtra",
    "Mode",
    "NamedModel",
    "ObjectScanner",
    "Oddity",
    "OfChoice",
    "Offered",
    "Opened",
    "Outcome",
    "PastCall",
    "Pins",
    "Problem",
    "Progress",
    "Prompt",
    "ProtocolError",
    "Proved",
    "ProviderBlock",
    "Reader",
    "Reason",
    "Reasoning",
    "RecordingUpstream",
    "Rejected",
    "Released",
    "Repair",
    "Repeated",
    "ReplayUpstream",
    "Request",
    "Restart",
    "Result",
    "Retry",
    "RetryPolicy",
    "Role",
    "Route",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunLimits",
    "RunNext",
    "RunResult",
    "ScriptedAnswer",
    "SkipReason",
    "Start",
    "Status",
    "Stop",
    "StopCondition",
    "Target",
    "Terminated",
    "Text",
    "Timeouts",
    "Tool",
    "ToolAbandoned",
    "ToolCallBuffer",
    "ToolEnded",
    "ToolEndedLate",
    "ToolPrinted",
    "ToolReported",
    "ToolServerFailed",
    "ToolSpec",
    "ToolStarted",
    "ToolUseBuffer",
    "Toolbox",
    "TurnRetried",
    "TurnStarted",
    "UnknownModel",
    "UnknownProtocol",
    "UnreadableRecording",
    "UnreadableRequest",
    "UnusableDialect",
    "UnusableFunction",
    "Upstream",
    "UpstreamError",
    "Usage",
    "Way",
    "WholecallError",
    "admit",
    "ask",
    "ask_sync",
    "assemble",
    "assemble_response",
    "dropped_note",
    "emulate",
    "estimate_tokens",
    "events",
    "events_sync",
    "feedback",
    "find_upstream",
    "is_complete_json",
    "learn_dialect",
    "load_dialect",
    "load_response_template",
    "make_feedback",
    "make_tool",
    "mend",
    "obeyed",
    "parse_text",
    "preview",
    "repair_history",
    "require_admissible",
    "run",
    "save_dialect",
    "should_execute_tool_calls",
    "skipped",
    "timed_out",
    "tool",
    "tool_failed",
    "way_for",
]

# Import what opens connections or runs tools on first use, so that a program that only reads
# streams never loads an HTTP client.
_LATER = {
    "wholecall.agent.tool_middleware": (
        "Around",
        "RunNext",
    ),
    "wholecall.upstreams.base": (
        "Answer",
        "Upstream",
    ),
    "wholecall.upstreams.replay": (
        "RecordingUpstream",
        "ReplayUpstream",
        "ScriptedAnswer",
    ),
    "wholecall.upstreams.retry": ("RetryPolicy",),
    "wholecall.tools.mcp.tool_definitions": ("Pins",),
    "wholecall.tools.mcp.toolset": ("McpTools",),
    "wholecall.tools.mcp.server_config": (
        "McpServer",
        "Restart",
    ),
    "wholecall.dialect_files": (
        "learn_dialect",
        "load_dialect",
        "save_dialect",
    ),
    "wholecall.agent.call_runner": ("ExecutorSettings",),
    "wholecall.agent.executor": ("Executor",),
    "wholecall.agent.api": (
        "ask",
        "ask_sync",
        "run",
    ),
    "wholecall.agent.approvals": (
        "Approval",
        "Approvals",
        "Approver",
    ),
    "wholecall.agent.run_events": (
        "ApprovalAnswered",
        "ApprovalAsked",
        "RunEnded",
        "RunEvent",
        "Status",
        "ToolAbandoned",
        "ToolEnded",
        "ToolEndedLate",
        "ToolPrinted",
        "ToolReported",
        "ToolStarted",
        "TurnRetried",
        "TurnStarted",
    ),
    "wholecall.agent.budget": (
        "Stop",
        "RunLimits",
    ),
    "wholecall.agent.run": (
        "Progress",
        "RunResult",
        "StopCondition",
        "Run",
    ),
    "wholecall.tools.function_tool": (
        "FunctionTool",
        "make_tool",
        "tool",
    ),
    "wholecall.tools.tool": (
        "Failed",
        "Retry",
        "Context",
        "Tool",
    ),
    "wholecall.tools.toolbox": (
        "Offered",
        "Toolbox",
    ),
    "wholecall.upstreams.http": (
        "HttpSettings",
        "HttpUpstream",
    ),
    "wholecall.upstreams.http_connection": ("Timeouts",),
    "wholecall.upstreams.providers": (
        "NamedModel",
        "Route",
        "find_upstream",
    ),
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
