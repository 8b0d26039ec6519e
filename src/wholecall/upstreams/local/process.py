"""One process that serves one model, from its start to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import msgspec

from wholecall.errors import MissingExtra, UpstreamError
from wholecall.upstreams.local.fitness import unfit
from wholecall.upstreams.local.settings import Order, Ready

PROGRAM = (sys.executable, "-m", "wholecall.upstreams.local.server")
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

    def __init__(self, order: Order, program: Sequence[str] = PROGRAM) -> None:
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
        return msgspec.json.decode(said, type=Ready).address

    def explain(self) -> UpstreamError | MissingExtra:
        """Return why it ended."""
        if _MISSING in self._log:
            return MissingExtra("local/… models need xllamacpp: pip install 'wholecall[local]'")
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
