"""The pins of MCP tools, kept over a restart.

A tool that changed is not offered. To accept it, the operator deletes its line from the file, or
the whole file, and reloads the configuration.
"""

from __future__ import annotations

import os
from pathlib import Path

from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Position
from wholecall.tools.mcp.pins import Pins

PINS_FILE = "wholecall-pins.json"
"""Beside the file of the keys."""


class PinFile:
    """The file of the pins. Without a path they are forgotten with the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept = Pins()

    def read(self) -> Pins:
        """Return the pins; none without a file. Raise `ConfigError` for an invalid file."""
        if self._path is None:
            return Pins()
        try:
            self._kept = Pins.from_json(self._path.read_bytes())
        except FileNotFoundError:
            self._kept = Pins()
        except (ValueError, OSError) as error:
            why = f"the pins of MCP tools cannot be read: {error}; mend the file, or delete it"
            raise ConfigError([ConfigProblem(Position(str(self._path)), "", why)]) from None
        return self._kept

    def keep(self, pins: Pins) -> None:
        """Write them down, if they have changed; an `OSError` if that cannot be."""
        if self._path is None or pins == self._kept:
            return
        # Several processes may do so at the same time.
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(pins.to_json(), "utf-8")
        os.replace(fresh, self._path)
        self._kept = pins
