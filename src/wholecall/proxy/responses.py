"""Clients of OpenAI's responses."""

from __future__ import annotations

from wholecall.proxy.client import ClientProtocol

# Another upstream has neither the earlier answer nor a place to work in the background.
_STATEFUL = frozenset({"previous_response_id", "conversation", "background", "prompt"})
RESPONSES = ClientProtocol(protocol="openai-responses", path="/v1/responses", only_there=_STATEFUL)
