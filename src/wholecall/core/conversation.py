"""A conversation as values: what a request says, whatever protocol it came in or goes out in.

Every protocol decodes its requests to these values and encodes them again, so that any
client can talk to any upstream. What a value was read from stays with it (`native`): in the
same protocol it goes out again as it came in, unknown fields included.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wholecall.core.choice import Choice
from wholecall.core.spec import ToolSpec
from wholecall.core.values import JSON, Reasoning, Text


class Role(enum.Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """Holds results and nothing else."""


@dataclass(frozen=True, slots=True)
class Native:
    """Content that only one protocol understands, in its own form."""

    protocol: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound or a document: its bytes in base64, or where they lie."""

    kind: str
    """`image`, `audio` or `document`."""
    media_type: str = ""
    """As in `image/png`; may be unknown for an address."""
    data: str = ""
    url: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _MEDIA_KINDS:
            raise ValueError(
                f"media of the kind {self.kind!r}: {', '.join(_MEDIA_KINDS)} are known"
            )


_MEDIA_KINDS = ("image", "audio", "document")
Content: TypeAlias = Text | Media


@dataclass(frozen=True, slots=True)
class Result:
    """The result of running a call: an output or a failure."""

    content: tuple[Content, ...] = ()
    failed: bool = False
    structured: JSON = None
    """The output as a value, where the tool gave one. Its text is in `content` all the same."""

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(piece.text for piece in self.content if isinstance(piece, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call in a history: it was made before and is not run from here."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    provider_id: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the provider wants back with the call, such as thought signatures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The one result of a past call."""

    call_id: str
    result: Result
    name: str = ""
    """The tool's; some protocols go by it."""


Part: TypeAlias = Text | Media | Reasoning | PastCall | CallResult | Native


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a history."""

    role: Role
    parts: tuple[Part, ...]
    native: Native | None = None
    """The messages or items (a tuple of them) that it was read from."""

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """The form that the final answer must have."""

    schema: Mapping[str, Any]
    name: str = "answer"
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted:
    """Tools that were written into the messages, and how the answer calls them."""

    dialect: str
    """Its name."""
    tools: tuple[ToolSpec, ...]
    choice: Choice
    beginning: str = ""
    """The prefilled beginning of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for one turn."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    native_tools: tuple[Native, ...] = ()
    """Tools that the upstream itself runs, in its own form."""
    choice: Choice = field(default_factory=Choice)
    stream: bool = True
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    output: OutputSchema | None = None
    rest: Native | None = None
    """The other fields of the request (a mapping), for the protocol that they were written in."""
    headers: Native | None = None
    """Headers of the request (a mapping), for the protocol in which it was written."""
    prompted: Prompted | None = None
    """Tools that are described in the messages instead of being sent to the upstream."""
