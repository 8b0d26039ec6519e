"""Whether a model's own chat template has a place for tools.

Where it has none, llama.cpp drops the tools without a word, and the model never hears of them.
"""

from __future__ import annotations

import aiohttp
import msgspec

_GOOD = 200
_SECONDS = 30.0
"""It answers at once, but not while it writes for somebody else."""


class _Abilities(msgspec.Struct, frozen=True):
    supports_tools: bool | None = None


class _Properties(msgspec.Struct, frozen=True):
    chat_template_caps: _Abilities = _Abilities()


async def takes_tools(address: str, key: str) -> bool | None:
    """Ask llama.cpp. None if it does not say."""
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    headers = {"authorization": f"Bearer {key}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(f"{address}/props") as response,
        ):
            said = await response.read() if response.status == _GOOD else b"{}"  # says nothing
        return msgspec.json.decode(said, type=_Properties).chat_template_caps.supports_tools
    except (aiohttp.ClientError, OSError, msgspec.DecodeError):
        return None
