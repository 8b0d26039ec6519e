"""Drafts for tests."""

from typing import Any

from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.assembly.call_builder import Draft
from wholecall.events import Oddity

SMALL = Limits(characters=20, depth=3, blank_run=4)


def draft_of(*pieces: Any, limits: Limits = DEFAULT) -> Draft:
    draft = Draft(7, limits)
    for piece in pieces:
        draft.add(piece)
    return draft


def odd(draft: Draft) -> list[Oddity]:
    return [note.oddity for note in draft.oddities.take()]
