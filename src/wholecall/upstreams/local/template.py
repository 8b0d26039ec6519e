"""Check whether a model's own chat template supports tools.

If it does not, llama.cpp drops the tools without a message, and the model never sees them.
"""

from __future__ import annotations

import asyncio

import msgspec
from yarl import URL

from wholecall.upstreams.http1.base import Timeouts
from wholecall.upstreams.http1.connection import read_some
from wholecall.upstreams.http1.pool import Pool

_GOOD = 200
_MOST_BYTES = 4 * 1024 * 1024
"""It holds the template itself, and the parameters of the start."""
_SECONDS = 30.0
"""It answers at once, but not while it generates another answer."""


class _Abilities(msgspec.Struct, frozen=True):
    supports_tools: bool | None = None


class _Properties(msgspec.Struct, frozen=True):
    chat_template_caps: _Abilities = _Abilities()


async def takes_tools(address: str, key: str) -> bool | None:
    """Ask llama.cpp. None if it does not say."""
    url = URL(address) / "props"
    pool = Pool(url, timeouts=Timeouts())
    try:
        async with asyncio.timeout(_SECONDS):
            response = await pool.get(url, headers={"Authorization": f"Bearer {key}"})
            said = await read_some(response, _MOST_BYTES) if response.status == _GOOD else b"{}"
        return msgspec.json.decode(said, type=_Properties).chat_template_caps.supports_tools
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        await pool.close()
