"""The process that serves one local model: settings, memory check, start, restart."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn, cast

import msgspec

from wholecall.errors import MissingExtra, UpstreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """The defaults suit a small model on a laptop."""

    context: int = 8192
    """Tokens of a conversation. Memory is taken for all of them at the start."""
    parallel: int = 1
    """Answers at a time; they share the context. Who comes later waits."""
    threads: int | None = None
    """Of the processor; None: as many as there are cores."""
    output_tokens: int = 2048
    """Of one answer, where the request names no limit: a small model may go on for ever."""
    temperature: float = 0.0
    """The default. A small model's calls are best at zero."""
    start_seconds: float = 300.0
    """A model of many gigabytes on a slow disk takes minutes to load."""


class ServerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The first input of the process, as one line of JSON.

    Not on its command line: that is visible to every user of the machine, key included.
    """

    path: str
    key: str
    context: int
    parallel: int
    threads: int
    output_tokens: int
    temperature: float


class ServerReady(msgspec.Struct, frozen=True):
    """The process' message that the model is loaded."""

    address: str


# Check whether a model can run here, before it is tried and in words that help.


MORE_BYTES = 512 * 1024 * 1024
"""Memory in addition to the weights: the context, the prompt cache, the program."""
CODE = "local"
"""The code of every error that says why a model does not run here."""
_UNAVAILABLE = 503
_MAGIC = b"GGUF"
_MEGABYTE = 1_000_000
_LIMIT = Path("sys/fs/cgroup/memory.max")
_MEMORY = Path("proc/meminfo")


def unfit(why: str, *, retry_after: float | None = None) -> UpstreamError:
    """Return the error for a model that cannot run here. Clients of the proxy read it, so it names
    files without their folders."""
    return UpstreamError(why, status=_UNAVAILABLE, retry_after=retry_after, code=CODE)


def demand_fit(path: Path, *, root: Path = Path("/")) -> None:
    """Raise `UpstreamError` if the file is not a model, or larger than the free memory."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        size = path.stat().st_size
    except OSError as error:
        raise unfit(f"the model {path.name} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise unfit(f"{path.name} is not a model in GGUF, the format of llama.cpp")
    demand_memory(path.name, size, root=root)


def demand_memory(name: str, size: int, *, root: Path = Path("/")) -> None:
    """`UpstreamError` if a model of this size is larger than the memory that is left."""
    available, needed = available_bytes(root), size + MORE_BYTES
    if available is not None and available < needed:
        raise unfit(
            f"{name} needs about {needed // _MEGABYTE:,} MB of memory, and "
            f"{available // _MEGABYTE:,} MB are left: close something, or take a smaller model"
        )


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the available memory according to Linux; None if it is unknown."""
    found = [each for each in (_left(root / _MEMORY), _allowed(root / _LIMIT)) if each is not None]
    return min(found, default=None)


def _left(path: Path) -> int | None:
    for line in _read(path).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _allowed(path: Path) -> int | None:
    """Return the memory limit of a container, where the machine's own memory says little."""
    limit = _read(path).strip()
    return int(limit) if limit.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


# One process that serves one model, from its start to its end.


PROGRAM = (sys.executable, "-m", "wholecall.upstreams.model_process")
ENDING_SECONDS = 5.0
"""Seconds to end after a request to stop. Then it is killed."""
_KEPT_LINES = 40
_SHOWN = 300
"""Characters of what the process wrote that are passed on."""
_MISSING = "ModuleNotFoundError: No module named 'xllamacpp'"
# A wheel is built for processors of the last ten years; where memory is short, Linux kills.
_SIGNALS = {
    -signal.SIGILL: "this processor lacks instructions that llama.cpp was built for (AVX2, FMA)",
    -signal.SIGKILL: "it was killed, most likely because the memory does not suffice: "
    "take a smaller model or a smaller context",
}


class ModelProcess:
    """Starts, loads a model, ends. Everything here may block: call it in a thread."""

    def __init__(self, order: ServerOrder, program: Sequence[str] = PROGRAM) -> None:
        self._order = order
        # A session of its own: Ctrl-C in a terminal is meant for us, and not for the model.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._stdin = cast(IO[bytes], self._process.stdin)
        self._stdout = cast(IO[bytes], self._process.stdout)
        self._stderr = cast(IO[bytes], self._process.stderr)
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)
        self._why = ""
        self._is_loaded = False
        self._reader = threading.Thread(target=self._keep_log, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """True if it has not ended."""
        return self._process.poll() is None

    def load(self, seconds: float) -> str:
        """Load the model; the address under which it is served."""
        late = threading.Timer(seconds, self._kill, [f"it did not load within {seconds:g} s"])
        late.daemon = True
        late.start()
        said = b""
        try:
            # It has ended, and its log says why; or it was stopped before it read its order.
            with suppress(BrokenPipeError, ValueError):
                self._stdin.write(msgspec.json.encode(self._order) + b"\n")
                self._stdin.flush()
            with suppress(ValueError):  # the same, a moment later
                said = self._stdout.readline()
        finally:
            late.cancel()
        if not said:
            self._reap()
            raise self.explain()
        self._is_loaded = True
        return msgspec.json.decode(said, type=ServerReady).address

    def explain(self) -> UpstreamError | MissingExtra:
        """Return why it ended."""
        if _MISSING in self._log:
            return MissingExtra("local/… models", "local")
        why = self._why or _SIGNALS.get(self._process.wait()) or self._last_words()
        # Clients read it: where the file lies is not for them.
        return unfit(f"the model {Path(self._order.path).name} does not run: {why}")

    def stop(self, seconds: float = ENDING_SECONDS) -> None:
        """End it: it has some seconds to go by itself. Twice does no harm."""
        if not self._is_loaded:
            self._kill("it was stopped while it loaded")
        self._reap(seconds)

    def _reap(self, seconds: float = ENDING_SECONDS) -> None:
        """Wait for its end, and let go of what it held."""
        with suppress(BrokenPipeError):
            self._stdin.close()  # by this it learns that it should go
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()
        self._reader.join(ENDING_SECONDS)
        self._stdout.close()

    def _kill(self, why: str) -> None:
        if self._process.poll() is None:
            self._why = self._why or why
            self._process.kill()

    def _keep_log(self) -> None:
        with self._stderr:
            for line in self._stderr:
                self._log.append(line.decode("utf-8", "replace").strip())

    def _last_words(self) -> str:
        """Return the first error of the log, which causes the others. llama.cpp marks errors with
        an E after the time."""
        lines = [line for line in self._log if line]
        errors = [said for line in lines if (said := line.partition(" E ")[2])]
        said = (errors[:1] or lines[-1:] or ["it did not say why"])[0]
        return f"{said[:_SHOWN]} (exit status {self._process.returncode})"


# Keep one model served: start its process when it is needed, and again when it ended.
#
# A process that ended is started again by the next question. One that keeps ending early is left
# alone for a while, longer each time, and questions in the meantime are answered with the reason.


STEADY_SECONDS = 60.0
"""A process that ran for so long was sound; its end is not held against the next one."""
LONGEST_DELAY = 60.0
"""Seconds for which a model is left alone."""


def back_off(failures: int) -> float:
    """Seconds to leave a model alone after so many early ends: 0, 1, 2, 4, …"""
    return 0.0 if failures <= 1 else min(2.0 ** (failures - 2), LONGEST_DELAY)


class ModelKeeper:
    """The process of one model. It may be asked in any event loop and any thread."""

    def __init__(
        self,
        launch: Callable[[], ModelProcess],
        *,
        start_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch = launch
        self._start_seconds = start_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._running: tuple[ModelProcess, Future[str]] | None = None
        self._stops = 0
        """The number of stops: a question from before a stop starts nothing any more."""
        self._began = 0.0
        self._failures = 0
        self._not_before = 0.0
        self._why = ""

    @property
    def is_loaded(self) -> bool:
        """True if the model is served at the moment. Never waits."""
        running = self._running
        return running is not None and running[1].done() and running[0].is_running

    async def find_address(self) -> str:
        """Return the model's address, as soon as it is served. A caller that stops waiting does not
        stop the loading."""
        found = self._find_running()
        if found is None:
            # To start a process, and to hear the last words of one that ended, takes its time.
            found = await asyncio.to_thread(self._ensure, self._stops)
        loading = asyncio.wrap_future(found)
        # If no one waits any longer, the reason of its failure is not missed.
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(loading)

    def stop(self) -> None:
        """End the process. The next question starts another."""
        with self._lock:
            running, self._running = self._running, None
            self._stops += 1
        if running is not None:
            running[0].stop()

    def _find_running(self) -> Future[str] | None:
        """Return the address of a process that loads or serves, or None. Never wait."""
        running = self._running
        return running[1] if running is not None and _is_good(running) else None

    def _ensure(self, stops: int) -> Future[str]:
        """Return the address of a process; start one if none is running. It may block."""
        with self._lock:
            self._look_after()
            if self._running is None:
                if stops != self._stops:
                    raise unfit("the model was stopped before its process could start")
                self._demand_patience()
                process = self._launch()
                self._began = self._clock()
                self._running = process, _in_thread(lambda: process.load(self._start_seconds))
            return self._running[1]

    def _look_after(self) -> None:
        """Notice that the process has ended."""
        if self._running is None or _is_good(self._running):
            return
        process, _ = self._running
        process.stop()
        steady = self._clock() - self._began >= STEADY_SECONDS
        self._failures = 1 if steady else self._failures + 1
        self._not_before = self._clock() + back_off(self._failures)
        self._why = str(process.explain())
        self._running = None

    def _demand_patience(self) -> None:
        left = self._not_before - self._clock()
        if left > 0:
            raise unfit(f"{self._why}; it is tried again in {left:.0f} s", retry_after=left)


def _is_good(running: tuple[ModelProcess, Future[str]]) -> bool:
    process, address = running
    return not address.done() or process.is_running


def _in_thread(load: Callable[[], str]) -> Future[str]:
    executor = ThreadPoolExecutor(1, thread_name_prefix="wholecall model")
    loading = executor.submit(load)
    executor.shutdown(wait=False)  # the thread ends when the model is loaded
    return loading


# ── Inside the process: `python -m wholecall.upstreams.model_process` ──────────


CACHE_MEGABYTES = 256
"""For the beginnings of earlier conversations. llama.cpp would take 8 GiB."""


def main() -> None:
    """Read a `ServerOrder`, load the model, write `ServerReady` and serve until the input ends.

    The input is a pipe that only the parent holds: when the parent is gone, for whatever reason, so
    is this process. (llama.cpp holds the interpreter while it loads a model, and it is noticed
    then.)
    """
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
