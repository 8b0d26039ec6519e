"""Clients of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholecall.protocols.answers import Style
from wholecall.protocols.requests.decoding.openai_chat import knows_only_functions
from wholecall.proxy.client import ClientProtocol


def _read_style(body: Mapping[str, Any]) -> Style:
    """Read the style: the usage closes a stream only if the client requested it, because others
    fail at that chunk; and a client that offers `functions` reads its call as a `function_call`."""
    options = body.get("stream_options")
    wanted = isinstance(options, Mapping) and bool(options.get("include_usage"))
    return Style(usage=wanted, functions=knows_only_functions(body))


CHAT = ClientProtocol(
    protocol="openai-chat",
    path="/v1/chat/completions",
    read_style=_read_style,
)
