"""Tables for docs/performance.md, each between two marks that name it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_section(name: str, body: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    where = f"Measured on Python {platform.python_version()}, {platform.machine()}."
    PAGE.write_text(f"{before}{begin}\n{where}\n\n{body}\n{end}{after}", encoding="utf-8")
