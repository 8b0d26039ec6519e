"""Wholecall makes any model's tool calls safe to run.

It assembles calls from a stream, proves each one whole, checks it against its schema
and says exactly what was wrong with the ones that must not run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from wholecall.core.assembler import Assembler
from wholecall.core.buffer import ToolCallBuffer, is_complete_json
from wholecall.core.choice import Choice, Mode, obeyed
from wholecall.core.coerce import CoercionOptions
from wholecall.core.conversation import (
    CallResult,
    Media,
    Message,
    PastCall,
    Request,
    Result,
    Role,
)
from wholecall.core.feedback import (
    Feedback,
    SkipReason,
    dropped_note,
    feedback,
    make_feedback,
    skipped,
    timed_out,
    tool_failed,
)
from wholecall.core.history import Mended, Target, mend, repair_history
from wholecall.core.ids import CallIds
from wholecall.core.limits import Limits
from wholecall.core.outcome import Outcome
from wholecall.core.preview import preview
from wholecall.core.scan import ObjectScanner
from wholecall.core.schema import admit, require_admissible
from wholecall.core.spec import ToolSpec
from wholecall.core.values import (
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
from wholecall.dialects.declaration import Dialect
from wholecall.dialects.emulate import Emulated, emulate
from wholecall.dialects.models import Means, Way, way_for
from wholecall.dialects.parsing import parse_text
from wholecall.dialects.prompt import Prompt
from wholecall.dialects.response_template import load_response_template
from wholecall.dialects.tokens import estimate_tokens
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
from wholecall.protocols.reader import Reader
from wholecall.reading import (
    ToolUseBuffer,
    assemble,
    assemble_response,
    events,
    events_sync,
    should_execute_tool_calls,
)

if TYPE_CHECKING:
    from wholecall.asking import ask, ask_sync, run
    from wholecall.learning import learn_dialect, load_dialect, save_dialect
    from wholecall.runs.approvals import Approval, Approvals, Approver
    from wholecall.runs.around import Around, RunNext
    from wholecall.runs.calling import ExecutorSettings
    from wholecall.runs.events import (
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
    from wholecall.runs.executor import Executor
    from wholecall.runs.ledger import Stop
    from wholecall.runs.limits import RunLimits
    from wholecall.runs.plan import Progress, RunResult, StopCondition
    from wholecall.runs.running import Run
    from wholecall.tools.from_function import FunctionTool, make_tool, tool
    from wholecall.tools.mcp.pins import Pins
    from wholecall.tools.mcp.server import McpServer, Restart
    from wholecall.tools.mcp.toolset import McpTools
    from wholecall.tools.signals import Failed, Retry
    from wholecall.tools.tool import Context, Tool
    from wholecall.tools.toolbox import Offered, Toolbox
    from wholecall.upstreams.base import Answer, Upstream
    from wholecall.upstreams.http import HttpSettings, HttpUpstream
    from wholecall.upstreams.http1.base import Timeouts
    from wholecall.upstreams.names import NamedModel, Route, find_upstream
    from wholecall.upstreams.recorder import RecordingUpstream
    from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer
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
    "wholecall.runs.around": (
        "Around",
        "RunNext",
    ),
    "wholecall.upstreams.base": (
        "Answer",
        "Upstream",
    ),
    "wholecall.upstreams.recorder": ("RecordingUpstream",),
    "wholecall.upstreams.retry": ("RetryPolicy",),
    "wholecall.tools.mcp.pins": ("Pins",),
    "wholecall.tools.mcp.toolset": ("McpTools",),
    "wholecall.tools.mcp.server": (
        "McpServer",
        "Restart",
    ),
    "wholecall.learning": (
        "learn_dialect",
        "load_dialect",
        "save_dialect",
    ),
    "wholecall.runs.calling": ("ExecutorSettings",),
    "wholecall.runs.executor": ("Executor",),
    "wholecall.asking": ("ask", "ask_sync", "run"),
    "wholecall.runs.approvals": (
        "Approval",
        "Approvals",
        "Approver",
    ),
    "wholecall.runs.events": (
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
    "wholecall.runs.ledger": ("Stop",),
    "wholecall.runs.limits": ("RunLimits",),
    "wholecall.runs.plan": (
        "Progress",
        "RunResult",
        "StopCondition",
    ),
    "wholecall.runs.running": ("Run",),
    "wholecall.tools.from_function": ("FunctionTool", "make_tool", "tool"),
    "wholecall.tools.signals": ("Failed", "Retry"),
    "wholecall.tools.tool": ("Context", "Tool"),
    "wholecall.tools.toolbox": (
        "Offered",
        "Toolbox",
    ),
    "wholecall.upstreams.http": ("HttpSettings", "HttpUpstream"),
    "wholecall.upstreams.http1.base": ("Timeouts",),
    "wholecall.upstreams.names": (
        "NamedModel",
        "Route",
        "find_upstream",
    ),
    "wholecall.upstreams.replay": ("ReplayUpstream", "ScriptedAnswer"),
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
