"""Render chat templates in a process of their own, with little time and little memory.

A chat template is a program that came with a model: it may loop without end or allocate gigabytes.
jinja2's sandbox keeps it away from Python's internals, and this process limits its time and memory.
A failure is reported with a reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wholecall.core.values import JSON
from wholecall.errors import MissingExtra, UnusableDialect
from wholecall.template_process import LONGEST, SECONDS


@dataclass(frozen=True, slots=True)
class Rendering:
    """The output of a template, or the reason why there is none."""

    text: str | None
    why: str = ""


def render(
    template: str,
    conversations: Sequence[Mapping[str, JSON]],
    *,
    tokens: Mapping[str, str] | None = None,
    timeout: float = 2 * SECONDS,
) -> list[Rendering]:
    """Render conversations: each has `messages`, and what else the template is to see.

    `timeout` is in seconds of the clock; the process has its own limit of processor time.
    """
    if len(template) > LONGEST:
        raise UnusableDialect(f"the chat template has more than {LONGEST} characters")
    order = {"template": template, "tokens": dict(tokens or {}), "conversations": [*conversations]}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "wholecall.template_process"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnusableDialect(f"the chat template did not end within {timeout} s") from None
    if done.returncode:
        raise failure(done.stderr)
    return [Rendering(**json.loads(line)) for line in done.stdout.splitlines()]


def failure(told: str) -> Exception:
    """Return the error in the last line of a failed process."""
    last = (told.strip().splitlines() or ["it needed too much time or memory"])[-1]
    if "jinja2" in last and "ModuleNotFoundError" in last:
        return MissingExtra("chat templates need jinja2: pip install 'wholecall[learn]'")
    return UnusableDialect(f"the chat template could not be rendered: {last[:300]}")
