"""The proxy on a socket: worker processes, signals, graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import FrameType

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import HANDLED_SIGNALS
from uvicorn.supervisors.multiprocess import SIGNALS, Multiprocess, Process

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
# Here they are forked from the supervisor, which has imported the proxy, and nothing that starts
# threads or keeps files open, as tools may: a worker that died is back at once, and imports the
# tools anew. On macOS, whose libraries do not survive a fork, uvicorn's way
# stays.
#
# uvicorn gives a new process five seconds to be ready, and otherwise drops the whole change without
# a message. A new process waits for its MCP servers, which can take longer. While one process
# hangs, it replaces none of the others. And it ends all of them when one cannot start, although the
# others serve.


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


FORKS = hasattr(os, "fork") and sys.platform != "darwin"
"""True where processes are forked."""
_LONGEST_REST = 30.0
"""Seconds, at most, until a process that could not start is started again."""


class WorkerProcess(Process):
    """A process that serves."""

    others: Sequence[WorkerProcess] = ()
    """Those whose pipes come along when it is forked."""
    served = False
    """True once it was ready."""
    ended = False
    """True once its end was noticed."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._supervisor = os.getpid()
        self.heard_at = time.monotonic()
        """When it last answered a ping."""
        if FORKS:
            forked = multiprocessing.get_context("fork").Process(
                target=self.target, args=(sockets,)
            )
            self.process = forked  # type: ignore[assignment]  # uvicorn spawns them

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, until the supervisor ends this process or is gone itself."""
        for process in self.others:
            process.parent_conn.close()
            process.child_conn.close()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        # The supervisor replaces this process when the configuration changes.
        signal.signal(signal.SIGHUP, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_end_with, args=(self._supervisor,), daemon=True).start()
        try:
            super().target(sockets)
        except WholecallError as error:  # the file is wrong by now
            _LOG.error("%s", error)
            sys.exit(STARTUP_FAILURE)

    @property
    def server(self) -> uvicorn.Server:
        """The server of this process, which a signal can end while it starts."""
        if self._server is None:
            self._server = _Server(self.config)
        return self._server

    def hangs(self, seconds: float) -> bool:
        """Return True if it has not answered for so long."""
        ready = self._healthcheck(_PAUSE)
        if ready is not None:
            self.heard_at = time.monotonic()
            self.served |= ready
        return time.monotonic() - self.heard_at > seconds


def _ignore(*_: object) -> None:
    """Take a signal. Unlike SIG_IGN, programs that are started here do not inherit it."""


class Workers(Multiprocess):
    """Starts processes, and keeps as many of them running."""

    patience: float = START_SECONDS
    """Seconds that a new process may take."""
    processes: list[WorkerProcess]  # type: ignore[assignment]  # all are started here
    _rests_until = 0.0
    _in_vain = 0
    """Processes that ended before they were ready, one after the other."""
    _served = False
    """True once one was ready."""

    def init_processes(self) -> None:
        """Start all of them."""
        gc.collect()
        gc.freeze()  # what is there by now is shared by all
        for _ in range(self.processes_num):
            self.processes.append(self._start())

    def keep_subprocess_alive(self) -> None:
        """Replace processes that have ended or hang. One that hangs does not hold up the others,
        and one that cannot start is tried again after a rest."""
        if self.should_exit.is_set():
            return
        for place, process in enumerate(self.processes):
            if process.process.is_alive() and not process.hangs(self.patience):
                self._served |= process.served
                continue
            if not process.ended:
                self._note_end(process)
            if self._may_start_after(process):
                self.processes[place] = self._start()

    def _may_start_after(self, process: WorkerProcess) -> bool:
        """Return True if another may take its place. One that could not start waits until one of
        the others serves: what is wrong may be wrong for all."""
        could_start = self._served or process.exitcode != STARTUP_FAILURE
        return could_start and time.monotonic() >= self._rests_until

    def _note_end(self, process: WorkerProcess) -> None:
        process.kill()
        process.join()
        process.ended = True
        if process.served:
            self._in_vain = 0
            _LOG.warning("a process ended (%s); another takes its place", process.exitcode)
            return
        if process.exitcode == STARTUP_FAILURE and not self._served:
            _LOG.error("a process could not start; its own log lines say why")
            if not any(each.process.is_alive() for each in self.processes):
                sys.exit(STARTUP_FAILURE)
            return
        self._in_vain += 1
        rest = min(_PAUSE * 2 ** min(self._in_vain, 10), _LONGEST_REST)
        self._rests_until = time.monotonic() + rest
        said = "a process ended before it was ready (%s); next attempt in %.1f s"
        _LOG.error(said, process.exitcode, rest)

    def handle_ttin(self) -> None:
        """Keep one more of them running."""
        self.processes_num += 1
        self.processes.append(self._start())

    def _start(self) -> WorkerProcess:
        """Start a process. Signals wait until it has handlers of its own."""
        process = WorkerProcess(self.config, self.sockets)
        held = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        process.others = tuple(self.processes) if FORKS else ()
        process.start()
        process.others = ()
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
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
                return "did not start; its own log lines say why"
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
_COLLECT_AFTER = (20_000, 10, 10)
"""New objects, and rounds, until the garbage collector visits each generation."""


def make_worker_app() -> Proxy:
    """The application of one process, as the environment and the file describe it."""
    proxy = make_app(load(find_file(None, os.environ), os.environ), around=lifespan)
    _take_logs(proxy)
    # Objects that exist by now stay until the end, and requests leave no reference cycles, which
    # tests/e2e/test_proxy_memory.py checks; only closed connections do. Collecting as often as by
    # default took a fifth of a request's time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    return proxy


def _end_with(supervisor: int) -> None:
    """End this process when its supervisor has: no one would replace it or end it."""
    while os.getppid() == supervisor:
        time.sleep(_PATIENCE)
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
    """Reload the configuration on SIGHUP while the proxy runs, if no supervisor does."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGHUP) is _ignore:
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
    error, and the proxy's own log has them. Texts that are not UTF-8, in WebSockets, are the
    clients' mistake.
    """
    error = record.exc_info[1] if record.exc_info else None
    of_client = isinstance(error, asyncio.CancelledError | UnicodeDecodeError)
    return not of_client and _KNOWN not in record.msg


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
