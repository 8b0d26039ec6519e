"""Several processes on one port, replaced one by one when the configuration changes.

uvicorn gives a new process five seconds to be ready, and otherwise drops the whole change without a
message. Our process waits for its MCP servers, and on a busy machine imports alone take that long.
"""

from __future__ import annotations

import logging
import signal
import time

from uvicorn.supervisors.multiprocess import Multiprocess, Process

from wholecall.proxy.config.settings import Config, McpTool

START_SECONDS = 60
"""Seconds for a process to be ready, in addition to its MCP servers; and for one to show that it
lives. One that hangs longer is killed and replaced."""
_LOG = logging.getLogger(__name__)
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})
_PAUSE = 0.1
_PATIENCE = 1.0


def find_patience(config: Config) -> float:
    """Seconds that a new process may take."""
    servers = (tool for tool in config.tools if isinstance(tool, McpTool) and tool.required)
    return START_SECONDS + max((tool.start_timeout for tool in servers), default=0.0)


class Workers(Multiprocess):
    """Starts processes, and keeps as many of them running."""

    patience: float = START_SECONDS
    """Seconds that a new process may take."""

    def restart_all(self) -> None:
        """Replace each process when another is ready; if none is, the rest go on as they are."""
        for place, before in enumerate(self.processes):
            after = Process(self.config, self.sockets)
            after.start()
            why = self._wait_for(after)
            if why:
                after.kill()
                after.join()
                if not self._is_leaving():
                    _LOG.error("the configuration was not taken over: a new process %s", why)
                return
            before.terminate()
            before.join()
            self.processes[place] = after

    def _wait_for(self, process: Process) -> str:
        """Return why a new process does not take over; empty when it is ready."""
        deadline = time.monotonic() + self.patience
        while not self._is_leaving():
            if not process.process.is_alive():
                return "did not start; its own lines say why"
            if process.is_ready(_PATIENCE):
                return ""
            if time.monotonic() > deadline:
                return f"was not ready after {self.patience:g} seconds"
            time.sleep(_PAUSE)
        return "is not wanted any more"

    def _is_leaving(self) -> bool:
        """Return True if all of them shall end: that precedes any change."""
        return self.should_exit.is_set() or not _ENDING.isdisjoint(self.signal_queue)
