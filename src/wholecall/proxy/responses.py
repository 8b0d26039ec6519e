"""Clients of OpenAI's responses."""

from __future__ import annotations

from wholecall.proxy.client import ClientProtocol, Elsewhere
from wholecall.proxy.terms import NOT_FOUND, NOT_HELD, PREVIOUS

_CONVERSATION = Elsewhere(
    "only an upstream that speaks Responses has conversations: send all items of it, or go on with "
    "`previous_response_id`"
)
_PROMPT = Elsewhere(
    "only an upstream that speaks Responses has stored prompts: send the words of it as "
    "`instructions`"
)
RESPONSES = ClientProtocol(
    protocol="openai-responses",
    path="/v1/responses",
    only_there={
        PREVIOUS: Elsewhere(NOT_HELD, NOT_FOUND),
        "conversation": _CONVERSATION,
        "prompt": _PROMPT,
    },
    holds=True,
)
