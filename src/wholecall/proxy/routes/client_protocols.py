"""The client protocols that the proxy speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholecall.protocols.openai_chat.request import knows_only_functions
from wholecall.protocols.response_base import ResponseStyle
from wholecall.proxy.http.client_request import ClientProtocol, UnsupportedField
from wholecall.proxy.responses.response_params import NOT_FOUND, NOT_HELD, PREVIOUS


def _read_style(body: Mapping[str, Any]) -> ResponseStyle:
    """Read the style: the usage closes a stream only if the client requested it, because others
    fail at that chunk; and a client that offers `functions` reads its call as a `function_call`."""
    options = body.get("stream_options")
    wanted = isinstance(options, Mapping) and bool(options.get("include_usage"))
    return ResponseStyle(usage=wanted, functions=knows_only_functions(body))


CHAT = ClientProtocol(
    protocol="openai-chat",
    path="/v1/chat/completions",
    read_style=_read_style,
)


# Clients of Anthropic's messages.


MESSAGES = ClientProtocol(protocol="anthropic", path="/v1/messages", beta="anthropic-beta")


# Clients of OpenAI's responses.


_CONVERSATION = UnsupportedField(
    "only an upstream that speaks Responses has conversations: send all items of it, or go on with "
    "`previous_response_id`"
)
_PROMPT = UnsupportedField(
    "only an upstream that speaks Responses has stored prompts: send the words of it as "
    "`instructions`"
)
RESPONSES = ClientProtocol(
    protocol="openai-responses",
    path="/v1/responses",
    only_there={
        PREVIOUS: UnsupportedField(NOT_HELD, NOT_FOUND),
        "conversation": _CONVERSATION,
        "prompt": _PROMPT,
    },
    holds=True,
)
