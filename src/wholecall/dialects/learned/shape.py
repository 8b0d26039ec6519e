"""The result of learning a family: how calls are read, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.dialects.declaration import Grammar, Written
from wholecall.dialects.encoding import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """The part of a dialect that is about calls."""

    template: Template
    written: tuple[Written, ...] = ()
    bare: tuple[Grammar, ...] = ()
    dropped: tuple[str, ...] = ()


def present(*marks: str) -> tuple[str, ...]:
    """Those marks that are more than white space, without the space around them."""
    return tuple(mark.strip() for mark in marks if mark.strip())
