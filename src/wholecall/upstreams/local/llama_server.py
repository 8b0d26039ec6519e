"""The process of one model: `python -m wholecall.upstreams.local.llama_server`.

It reads an `ServerOrder`, loads the model, writes `ServerReady` and serves until its input ends.
The input is a pipe that only our parent holds: when the parent is gone, for whatever reason, so are
we. (llama.cpp holds the interpreter while it loads a model, and we learn of it then.)
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn

import msgspec

from wholecall.upstreams.local.model_process import ServerOrder, ServerReady

CACHE_MEGABYTES = 256
"""For the beginnings of earlier conversations. llama.cpp would take 8 GiB."""


def main() -> None:
    """Serve one model."""
    say = _take_stdout()
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ServerOrder)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Idle threads would spin, and take the processor from a running tool. llama.cpp reads it when
    # it is imported.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    llama = import_module("xllamacpp")
    server = llama.Server(set_parameters(llama, order))
    say.write(msgspec.json.encode(ServerReady(server.listening_address)) + b"\n")
    say.flush()
    threading.Event().wait()


def set_parameters(llama: ModuleType, order: ServerOrder) -> Any:
    """Return the parameters for llama.cpp. By default it would serve other machines, and take more
    than it needs."""
    parameters = llama.CommonParams()
    parameters.model.path = order.path
    # Answers name the model by it, and would else tell clients where its file lies.
    parameters.model_alias = {Path(order.path).stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # any that is free
    parameters.api_keys = [order.key]
    parameters.ui = False
    parameters.endpoint_slots = False  # they show other conversations
    parameters.offline = True
    parameters.cors_origins = ""
    parameters.cors_credentials = False
    parameters.n_ctx = order.context
    parameters.n_parallel = order.parallel
    parameters.n_predict = order.output_tokens
    parameters.sampling.temp = order.temperature
    parameters.cache_ram_mib = CACHE_MEGABYTES
    # It would keep the weights a second time, rearranged.
    parameters.no_extra_bufts = True
    parameters.cpuparams.n_threads = order.threads
    parameters.cpuparams_batch.n_threads = order.threads
    parameters.verbosity = 2  # warnings and errors
    return parameters


def _take_stdout() -> IO[bytes]:
    """Keep the standard output for ourselves: what others print goes to the error output."""
    ours = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ours


def _end_with_parent() -> NoReturn:
    sys.stdin.buffer.read()
    # At once: there is nothing to clean up, and llama.cpp may be in the middle of an answer.
    os._exit(0)


if __name__ == "__main__":
    main()
