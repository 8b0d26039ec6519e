"""docs/README.md leads to every page."""

import re
from pathlib import Path

from wholecall.events import Reason

DOCS = Path(__file__).parents[2] / "docs"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}
    assert pages <= linked, f"docs/README.md does not lead to {sorted(pages - linked)}"


def test_the_reasons_of_the_troubleshooting_page_exist() -> None:
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    table = page.partition("## A call was not run")[2].partition("##")[0]
    named = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)
    assert len(named) > 3
    assert set(named) <= {reason.value for reason in Reason}
