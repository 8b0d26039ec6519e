"""History: repair the messages of a request so that its upstream accepts them.

Every call has exactly one result, in call order, directly after its turn; ids are unique; arguments
are objects; nothing is empty. A healthy history comes back equal, repairing twice changes nothing
more, and the caller's messages are never modified.
"""

from wholecall.core.history.mending import Mended, mend, repair_history
from wholecall.core.history.pieces import Change, ChangeKind
from wholecall.core.history.target import (
    ANTHROPIC,
    DEEPSEEK,
    GEMINI,
    MISTRAL,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    IdRule,
    Reasoning,
    System,
    Target,
)

__all__ = [
    "ANTHROPIC",
    "DEEPSEEK",
    "GEMINI",
    "MISTRAL",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "Change",
    "ChangeKind",
    "IdRule",
    "Mended",
    "Reasoning",
    "System",
    "Target",
    "mend",
    "repair_history",
]
