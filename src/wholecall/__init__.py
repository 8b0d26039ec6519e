"""Wholecall makes any model's tool calls safe to run.

It assembles calls from a stream, proves each one whole, checks it against its schema
and says exactly what was wrong with the ones that must not run.
"""

from wholecall.core.assembler import Assembler
from wholecall.core.buffer import ToolCallBuffer, is_complete_json
from wholecall.core.choice import Choice, obeyed
from wholecall.core.feedback import (
    Feedback,
    dropped_note,
    feedback,
    make_feedback,
    skipped,
    timed_out,
    tool_failed,
)
from wholecall.core.history import Mended, Target, mend, repair_history
from wholecall.core.limits import Limits
from wholecall.core.outcome import Outcome
from wholecall.core.preview import preview
from wholecall.core.scan import ObjectScanner
from wholecall.core.schema import admit, require_admissible
from wholecall.core.spec import ToolSpec
from wholecall.core.values import (
    Call,
    CallDelta,
    CallSealed,
    Coercion,
    Ended,
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
from wholecall.dialects.parsing import parse_text
from wholecall.errors import (
    InadmissibleTools,
    IncompleteArguments,
    InvalidChoice,
    ProtocolError,
    UnknownProtocol,
    UnreadableRecording,
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

__all__ = [
    "Assembler",
    "Call",
    "CallDelta",
    "CallSealed",
    "Choice",
    "Coercion",
    "Ended",
    "Evidence",
    "Fault",
    "FaultKind",
    "Feedback",
    "Grew",
    "Hint",
    "HintGiven",
    "InadmissibleTools",
    "IncompleteArguments",
    "Inconsistent",
    "InvalidChoice",
    "Limits",
    "Mended",
    "ObjectScanner",
    "Oddity",
    "OfChoice",
    "Opened",
    "Outcome",
    "Problem",
    "ProtocolError",
    "Proved",
    "ProviderBlock",
    "Reader",
    "Reason",
    "Reasoning",
    "Rejected",
    "Released",
    "Repair",
    "Repeated",
    "Start",
    "Target",
    "Terminated",
    "Text",
    "ToolCallBuffer",
    "ToolSpec",
    "ToolUseBuffer",
    "UnknownProtocol",
    "UnreadableRecording",
    "Usage",
    "WholecallError",
    "admit",
    "assemble",
    "assemble_response",
    "dropped_note",
    "events",
    "events_sync",
    "feedback",
    "is_complete_json",
    "make_feedback",
    "mend",
    "obeyed",
    "parse_text",
    "preview",
    "repair_history",
    "require_admissible",
    "should_execute_tool_calls",
    "skipped",
    "timed_out",
    "tool_failed",
]
