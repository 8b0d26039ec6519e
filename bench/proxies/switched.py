"""The proxy as `wholecall serve` runs it, with an inspector that can be switched off and on.

    WHOLECALL_CONFIG=FILE python -m proxies.switched PORT

SIGUSR1: from the next request on the inspector is told of nothing. SIGUSR2: it is again.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import replace

import uvicorn

from wholecall.proxy.app import Proxy
from wholecall.proxy.server import listen, make_server_config, make_worker_app


def _obey(proxy: Proxy) -> None:
    shown = proxy.observers.taps
    taps = tuple(shown)
    others = tuple(tap for tap in taps if tap is not proxy.observers.inspector)

    def switch_off(*_: object) -> None:
        shown[:] = others

    def switch_on(*_: object) -> None:
        shown[:] = taps

    signal.signal(signal.SIGUSR1, switch_off)
    signal.signal(signal.SIGUSR2, switch_on)


def main() -> None:
    proxy = make_worker_app()
    _obey(proxy)
    with listen(replace(proxy.config.listen, port=int(sys.argv[1]))) as bound:
        uvicorn.Server(make_server_config(proxy.config, proxy)).run(sockets=[bound])


if __name__ == "__main__":
    main()
