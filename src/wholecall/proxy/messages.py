"""Clients of Anthropic's messages."""

from __future__ import annotations

from wholecall.proxy.client import ClientProtocol

MESSAGES = ClientProtocol(protocol="anthropic", path="/v1/messages", beta="anthropic-beta")
