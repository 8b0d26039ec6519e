"""The writers by protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholecall.faults.wire import anthropic, chat
from wholecall.faults.wire.anthropic import AnthropicWriter
from wholecall.faults.wire.chat import ChatWriter
from wholecall.faults.wire.responses import ResponsesWriter
from wholecall.faults.wire.writer import Writer

WRITERS: dict[str, Callable[[str, int], Writer]] = {
    "openai-chat": ChatWriter,
    "openai-responses": ResponsesWriter,
    "anthropic": AnthropicWriter,
}
"""From the model's name and the number of the turn to a writer of one answer."""
REFUSALS: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "openai-chat": chat.refuse,
    "openai-responses": chat.refuse,
    "anthropic": anthropic.refuse,
}
"""From a status and a message to the body of an HTTP error."""
