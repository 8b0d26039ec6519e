"""Clients of OpenAI's responses."""

from __future__ import annotations

from wholecall.proxy.client import ClientProtocol

RESPONSES = ClientProtocol(protocol="openai-responses", path="/v1/responses")
