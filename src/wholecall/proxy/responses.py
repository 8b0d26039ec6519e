"""Clients of OpenAI's responses."""

from __future__ import annotations

from wholecall.proxy.client import ClientProtocol, Elsewhere
from wholecall.proxy.terms import NOT_FOUND, NOT_HELD, PREVIOUS

_NOT_THERE = Elsewhere("the upstream of this model has no such thing")
RESPONSES = ClientProtocol(
    protocol="openai-responses",
    path="/v1/responses",
    only_there={
        PREVIOUS: Elsewhere(NOT_HELD, NOT_FOUND),
        "conversation": _NOT_THERE,
        "prompt": _NOT_THERE,
    },
    holds=True,
)
