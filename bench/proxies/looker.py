"""A page that looks: it reads the live stream of an inspector, and asks for approvals.

PYTHONPATH=bench python -m proxies.looker PORT
"""

from __future__ import annotations

import asyncio
import sys

PACE = 2.0
"""Seconds between two looks for approvals, as in the page."""
_PIECE = 1 << 20


def _write(path: str, port: int) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()


async def _listen(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_write("/inspector/api/live", port))
    while await reader.read(_PIECE):
        pass


async def _poll(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        writer.write(_write("/inspector/api/approvals", port))
        await reader.read(_PIECE)
        await asyncio.sleep(PACE)


async def main(port: int) -> None:
    await asyncio.gather(_listen(port), _poll(port))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
