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
    supports_tools: bool = True


class _Properties(msgspec.Struct, frozen=True):
    chat_template_caps: _Abilities = _Abilities()


async def takes_tools(address: str, key: str) -> bool:
    """Ask llama.cpp. If it does not say, it is believed to."""
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    headers = {"authorization": f"Bearer {key}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(f"{address}/props") as response,
        ):
            said = await response.read() if response.status == _GOOD else b"{}"
        return msgspec.json.decode(said, type=_Properties).chat_template_caps.supports_tools
    except (aiohttp.ClientError, OSError, msgspec.DecodeError):
        return True
