"""An output that cannot be written to any longer."""

from __future__ import annotations

import os
import sys


def forget_output() -> None:
    """Discard further output: buffered output would be retried, and reported, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
