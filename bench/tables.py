"""Tables for the docs, each between two marks that name it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_section(name: str, body: str) -> None:
    """Put a measurement into docs/performance.md, and say where it was made."""
    where = f"Measured on Python {platform.python_version()}, {platform.machine()}."
    replace_section("performance.md", name, body=f"{where}\n\n{body}")


def replace_section(page: str, name: str, *, body: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->` of a page."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = (DOCS / page).read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    (DOCS / page).write_text(f"{before}{begin}\n{body}\n{end}{after}", encoding="utf-8")
