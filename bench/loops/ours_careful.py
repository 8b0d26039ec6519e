"""Wholecall with a tool that has side effects: it waits for the end of the turn."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from loops import ours
from loops.work import Agent

PACKAGE = "wholecall"


def open_agent(url: str) -> AbstractAsyncContextManager[Agent]:
    return ours.open_agent(url, read_only=False)
