"""The client protocols that the proxy speaks."""

from __future__ import annotations

from dataclasses import replace

from wholecall.protocols import registry
from wholecall.proxy.http.client_request import ClientProtocol, UnsupportedField
from wholecall.proxy.responses.response_params import NOT_FOUND, NOT_HELD, PREVIOUS

_CONVERSATION = UnsupportedField(
    "only an upstream that speaks Responses has conversations: send all items of it, or go on with "
    "`previous_response_id`"
)
_PROMPT = UnsupportedField(
    "only an upstream that speaks Responses has stored prompts: send the words of it as "
    "`instructions`"
)


def _serve(protocol: str) -> ClientProtocol:
    """Return the proxy's view of a protocol."""
    side = registry.client_side(protocol)
    client = ClientProtocol(protocol=protocol, path=side.path, beta=side.beta_header)
    return client if side.read_style is None else replace(client, read_style=side.read_style)


CHAT = _serve(registry.CHAT)
MESSAGES = _serve(registry.MESSAGES)
RESPONSES = replace(
    _serve(registry.RESPONSES),
    only_there={
        PREVIOUS: UnsupportedField(NOT_HELD, NOT_FOUND),
        "conversation": _CONVERSATION,
        "prompt": _PROMPT,
    },
    holds=True,
)
