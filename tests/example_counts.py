"""On how many examples a property is tried."""

from __future__ import annotations

import os

IN_CI = bool(os.environ.get("CI"))
FEWEST = 5


def examples(many: int) -> int:
    """So many at home, where they are new ones each time; in CI a third, always the same ones."""
    return max(many // 3, FEWEST) if IN_CI else many
