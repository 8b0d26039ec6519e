"""The proxy on a socket: worker processes, signals, graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import multiprocessing
import multiprocessing.process
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import FrameType

import uvicorn
from uvicorn._subprocess import subprocess_started
from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import HANDLED_SIGNALS
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from wholecall.agent.tool_middleware import take_prints
from wholecall.errors import WholecallError
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.load import find_file, load
from wholecall.proxy.config.schema import Config, ListenConfig, McpTool
from wholecall.proxy.observe.access_log import LogWriter, log_print, take_library_logs
from wholecall.proxy.observe.redaction import Redactor

# Several processes on one port, replaced one by one when the configuration changes.
#
# uvicorn starts each in a new interpreter, which imports the proxy for seconds on a busy machine.
# Here they are forked from a process that has imported it and does nothing else: a worker that died
# is back at once.
#
# uvicorn gives a new process five seconds to be ready, and otherwise drops the whole change without
# a message. A new process waits for its MCP servers, which can take longer. And while one process
# hangs, it replaces none of the others.


START_SECONDS = 60
"""Seconds for a process to be ready, in addition to its MCP servers; and for a running one to
answer a ping. One that hangs longer is killed and replaced."""
_LOG = logging.getLogger(__name__)
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})
_PAUSE = 0.1
_PATIENCE = 1.0


def find_patience(config: Config) -> float:
    """Seconds that a new process may take."""
    servers = (tool for tool in config.tools if isinstance(tool, McpTool) and tool.required)
    return START_SECONDS + max((tool.start_timeout for tool in servers), default=0.0)


_FORKS = multiprocessing.get_context("forkserver")


class WorkerProcess(Process):
    """A process that serves, forked from one that has imported the proxy."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        given = {
            "config": config,
            "target": self.target,
            "sockets": sockets,
            "stdin_fileno": None,
        }
        forked = _FORKS.Process(target=subprocess_started, kwargs=given)
        self.process = forked  # type: ignore[assignment]  # uvicorn spawns them
        self.heard_at = time.monotonic()
        """When it last answered a ping."""

    def hangs(self, seconds: float) -> bool:
        """Return True if it has not answered for so long."""
        if self.ping(_PAUSE):
            self.heard_at = time.monotonic()
        return time.monotonic() - self.heard_at > seconds


class Workers(Multiprocess):
    """Starts processes, and keeps as many of them running."""

    patience: float = START_SECONDS
    """Seconds that a new process may take."""
    processes: list[WorkerProcess]  # type: ignore[assignment]  # all are started here

    def init_processes(self) -> None:
        """Start all of them."""
        _FORKS.set_forkserver_preload([__name__])
        self.processes = [self._start() for _ in range(self.processes_num)]

    def keep_subprocess_alive(self) -> None:
        """Replace processes that have ended or hang. One that hangs does not hold up the others."""
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if process.process.is_alive() and not process.hangs(self.patience):
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                _LOG.error("a process could not start; see its own log lines")
                self.should_exit.set()
                return
            self.processes[place] = self._start()

    def handle_ttin(self) -> None:
        """Keep one more of them running."""
        self.processes_num += 1
        self.processes.append(self._start())

    def _start(self) -> WorkerProcess:
        process = WorkerProcess(self.config, self.sockets)
        process.start()
        return process

    def restart_all(self) -> None:
        """Replace each process when another is ready; if none is, the rest go on as they are."""
        for place, before in enumerate(self.processes):
            after = self._start()
            why = self._wait_for(after)
            if why:
                after.kill()
                after.join()
                if not self._is_leaving():
                    _LOG.error("new configuration not applied: a new process %s", why)
                return
            before.terminate()
            before.join()
            self.processes[place] = after

    def _wait_for(self, process: Process) -> str:
        """Return why a new process does not take over; empty when it is ready."""
        deadline = time.monotonic() + self.patience
        while not self._is_leaving():
            if not process.process.is_alive():
                return "did not start; see its own log lines"
            if process.is_ready(_PATIENCE):
                return ""
            if time.monotonic() > deadline:
                return f"was not ready after {self.patience:g} seconds"
            time.sleep(_PAUSE)
        return "is not needed any more"

    def _is_leaving(self) -> bool:
        """Return True if all processes are to end: that precedes any change."""
        return self.should_exit.is_set() or not _ENDING.isdisjoint(self.signal_queue)


_IDLE_SECONDS = 75
"""Seconds for which an idle connection is kept: longer than the clients' own pools do, so that it
is not closed while a request is being sent."""


_UVICORN_LOG = logging.getLogger("uvicorn.error")
_KNOWN = "timeout graceful"
"""Part of a line in its log that ours makes superfluous."""
_BACKLOG = 2048
"""Connections that wait to be accepted."""
_COLLECT_AFTER = (5_000, 10, 10)
"""New objects, and rounds, until the garbage collector visits each generation."""


def make_worker_app() -> Proxy:
    """The application of one process, as the environment and the file describe it."""
    proxy = make_app(load(find_file(None, os.environ), os.environ), around=lifespan)
    _take_logs(proxy)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    # Objects that exist by now stay until the end, and requests leave no reference cycles, which
    # tests/e2e/test_proxy_memory.py checks; only closed connections do. Collecting as often as by
    # default took a fifth of a request's time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    return proxy


def _end_with(supervisor: multiprocessing.process.BaseProcess) -> None:
    """End this process when its supervisor has: no one would replace it or end it."""
    supervisor.join()
    _LOG.error("the supervisor has ended, so this worker ends")
    os.kill(os.getpid(), signal.SIGTERM)


@asynccontextmanager
async def lifespan(proxy: Proxy) -> AsyncIterator[None]:
    """While the proxy runs, reload on SIGHUP and send what is printed to the log."""
    with take_prints(partial(log_print, proxy.observers.log)):
        async with reloading(proxy):
            yield


@asynccontextmanager
async def reloading(proxy: Proxy) -> AsyncIterator[None]:
    """Reload the configuration on SIGHUP while the proxy runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def begin() -> None:
        task = loop.create_task(reload(proxy))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, begin)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)  # the servers that it started end before the proxy does


async def reload(proxy: Proxy) -> None:
    """Read the configuration again. A wrong one is rejected, and the old one stays in force."""
    log = proxy.observers.log
    try:
        changed = await proxy.reload(load(find_file(None, os.environ), os.environ))
    except (WholecallError, ValueError) as error:  # the latter: a variable that cannot be used
        log.warning("new configuration rejected; keeping the old one", error=str(error))
        return
    log.info("configuration reloaded", changed=changed.live, restart=changed.restart)


class _ServerConfig(uvicorn.Config):
    """Asks the application how long responses may take to end: a reload can change that."""

    @property
    def timeout_graceful_shutdown(self) -> int:
        """Seconds that responses have to end when the server does."""
        app: Proxy = self.loaded_app
        return math.ceil(app.limits.drain_seconds)

    @timeout_graceful_shutdown.setter
    def timeout_graceful_shutdown(self, _: int | None) -> None:
        """Ignore uvicorn's own default."""


def make_server_config(config: Config, app: Proxy | None = None) -> uvicorn.Config:
    """Return uvicorn's configuration; without `app`, each process makes its own."""
    return _ServerConfig(
        app or f"{__name__}:{make_worker_app.__name__}",
        factory=app is None,
        host=config.listen.host,
        port=config.listen.port,
        workers=config.listen.workers,
        http="wholecall.proxy.http.uvicorn_protocol:TimedProtocol",
        ws="wholecall.proxy.http.uvicorn_protocol:TimedWebSocket",
        lifespan="on",
        access_log=False,
        # uvicorn's messages go to the proxy's own log, in its format.
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_worker_healthcheck=START_SECONDS,
    )


def serve(config: Config, *, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it. `make_worker_app` reads the same configuration."""
    listening = make_server_config(config)
    with listen(config.listen) as bound:
        announce(write_address(bound))
        if config.listen.workers > 1:
            _run_workers(config, listening, bound=bound)
        else:
            _Server(listening).run(sockets=[bound])


def _run_workers(config: Config, listening: uvicorn.Config, *, bound: socket.socket) -> None:
    take_library_logs(LogWriter(config.log, sys.stderr, redactor=Redactor()).log)
    workers = Workers(listening, sockets=[bound])
    workers.patience = find_patience(config)
    workers.run()


def run_app(app: Proxy, bound: socket.socket, *, leave: Callable[[], None]) -> None:
    """Serve one application in this process, until a signal ends it. `leave` is called first."""
    _take_logs(app)
    _LeavingServer(make_server_config(app.config, app), leave).run(sockets=[bound])


class _Server(uvicorn.Server):
    """Handles a signal that comes before the start is complete, which would otherwise end in a
    traceback."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            super().run(sockets)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        with super().capture_signals():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
            yield


class _LeavingServer(_Server):
    """Reports a signal before it waits for the answers in progress."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._leave()
        super().handle_exit(sig, frame)


def _take_logs(app: Proxy) -> None:
    take_library_logs(app.observers.log)
    _UVICORN_LOG.addFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Return True if a line of uvicorn's log is new information.

    At shutdown uvicorn cancels slow responses and logs each as a failure; but their clients get an
    error, and the proxy's own log has them.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and _KNOWN not in record.msg


def listen(place: ListenConfig) -> socket.socket:
    """Bind the port; raise `OSError` if it is taken."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((place.host, place.port))
        # Clients that connect before the first process is ready wait; they are not refused.
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    bound.set_inheritable(True)
    return bound


def write_address(bound: socket.socket) -> str:
    """Return the address of a socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
