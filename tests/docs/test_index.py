"""docs/README.md leads to every page."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}
    assert pages <= linked, f"docs/README.md does not lead to {sorted(pages - linked)}"
