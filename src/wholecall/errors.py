"""Every exception that Wholecall raises.

    WholecallError
    ├── ProtocolError        a stream broke its protocol's rules; readers make a `Fault` of it
    ├── UnknownProtocol      a name that is not in the protocol registry (also a ValueError)
    ├── UnreadableRecording  a file is not a recording that `replay` or `check` can read
    ├── IncompleteArguments  arguments were asked for that are not whole (also a ValueError)
    ├── InvalidChoice        `tool_choice` has a value that is not allowed; `param` names the field
    │                        (also a ValueError)
    ├── InadmissibleTools    tool definitions that may not be offered; `problems` says which and why
    │                        (also a ValueError)
    ├── UnreadableRequest    a request cannot be read; `param` names the field (also a ValueError)
    ├── UnknownModel         a model's name does not say who answers for it, or its
    │                        provider's key is missing (also a ValueError)
    ├── UnusableFunction     a function cannot be offered as a tool (also a TypeError)
    ├── UnusableDialect      a dialect that is not known, or cannot be read or learned
    │                        (also a ValueError)
    ├── PullFailed           a model could not be brought onto this machine
    ├── MissingExtra         an extra is not installed; says which (also an ImportError)
    ├── ToolServerFailed     an MCP server did not start, ended or fell silent; `server`, `stderr`
    ├── UpstreamError        an upstream refused, failed or fell silent; `status`, `retry_after`
    └── RunFailed            a run ended without an answer; `ran` says which calls had begun,
        │                    `text` what the model said last
        ├── RunCancelled     it was cancelled, or its reader left
        ├── RunWaiting       a durable run waits for a decision or a tool; `id` resumes it
        └── Fenced           another worker has taken over the durable run

A *model's* mistake is never an exception: it is a `Rejected` value, because it goes back to the
model. An *upstream's* mistake inside a stream is a `Fault` event. Exceptions are for the caller.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wholecall.events import Call


class WholecallError(Exception):
    """The base of every exception raised by this package."""


class ProtocolError(WholecallError):
    """A stream broke the rules of its protocol."""


class UnknownProtocol(WholecallError, ValueError):
    """The protocol's name is not registered."""


class UnreadableRecording(WholecallError):
    """The file holds no recorded answer."""


class IncompleteArguments(WholecallError, ValueError):
    """The arguments of a call were requested, but they are not whole."""


class InvalidChoice(WholecallError, ValueError):
    """`tool_choice`, or a field that belongs to it, has a value that is not allowed."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class InadmissibleTools(WholecallError, ValueError):
    """Tool definitions may not be offered: a broken schema, a bad name, too many of them."""

    def __init__(self, message: str, problems: tuple[object, ...]) -> None:
        super().__init__(message)
        self.problems = problems
        """One `Problem` for each way in which a definition is wrong."""


class UnreadableRequest(WholecallError, ValueError):
    """A request breaks its protocol's form, or asks for what is not served."""

    def __init__(self, message: str, *, param: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        """One word for programs, where the protocol has one."""


class UnknownModel(WholecallError, ValueError):
    """The name of a model does not say who answers for it."""


class UnusableFunction(WholecallError, TypeError):
    """A function cannot be offered as a tool: no name, a parameter without a type, …"""


class UnusableDialect(WholecallError, ValueError):
    """A dialect is not known, or what describes it cannot be read, translated or learned."""


class PullFailed(WholecallError):
    """A model could not be brought onto this machine; what came of it is kept."""


class MissingExtra(WholecallError, ImportError):
    """The packages of an extra are not installed; the message says how to install them."""

    def __init__(self, purpose: str, extra: str) -> None:
        cure = f"pip install 'wholecall[{extra}]'"
        super().__init__(f"{purpose} cannot be used without the extra {extra!r}: {cure}")
        self.extra = extra
        """The name of the extra."""


# A package of each extra that none of the others brings.
_MARKS = {
    "cli": "typer",
    "fleet": "psycopg",
    "learn": "jinja2",
    "litellm": "litellm",
    "local": "xllamacpp",
    "mcp": "mcp",
    "proxy": "structlog",
}


def require_extra(purpose: str, extra: str) -> None:
    """Raise `MissingExtra` if the packages of an extra are not installed."""
    if find_spec(_MARKS[extra]) is None:
        raise MissingExtra(purpose, extra)


class ToolServerFailed(WholecallError):
    """An MCP server did not start, ended, or cannot be reached."""

    def __init__(
        self, message: str, *, server: str, stderr: str = "", outcome_unknown: bool = False
    ) -> None:
        super().__init__(message)
        self.server = server
        self.outcome_unknown = outcome_unknown
        """True if a call was sent and may have been carried out, although no answer came."""
        self.stderr = stderr
        """The end of what the server's process wrote to its standard error."""


WORDLESS = "status"
"""The code of a refusal without a code of its own, such as one from a wrong address."""
MODERATION = "moderation"
"""The code of a refusal of what was said, and not of who says it."""


class UpstreamError(WholecallError):
    """An upstream refused the request, failed, or fell silent."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        code: str = "",
        body: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status, if there was one."""
        self.retry_after = retry_after
        """Seconds that the upstream asked to wait."""
        self.code = code
        """One word: the upstream's own code, or `timeout`, `connection`, `not_found`, `moderation`,
        `status`."""
        self.body = body
        """The beginning of what it said, without secrets."""
        self.quoted: str | None = None
        """The model's answer, if the upstream could not parse it: empty if it is not quoted."""
        self.words = message
        """The upstream's own words, without its address."""
        self.attempts = 1
        """The number of failed attempts to begin the answer."""
        self.ran: tuple[Call, ...] = ()
        """The calls that a run had begun by then, in order: what they did is done."""


class RunFailed(WholecallError):
    """A run ended without an answer."""

    def __init__(self, message: str, *, ran: tuple[Call, ...] = (), text: str = "") -> None:
        super().__init__(message)
        self.text = text
        """The model's last words if they were not an answer; empty if it said nothing."""
        self.ran = ran
        """The calls that had begun, in order: what they did is done."""


class RunWaiting(RunFailed):
    """A durable run cannot go on before a person decides, or a missing tool is there again."""

    def __init__(self, message: str, *, id: str) -> None:
        super().__init__(message)
        self.id = id
        """The run's, for `resume`."""


class Fenced(RunFailed):
    """Another worker has taken over a durable run: nothing more begins here."""


class RunCancelled(RunFailed):
    """A run was cancelled, or its reader left while no caller waited for its result."""
