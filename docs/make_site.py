"""Collect the Markdown of the docs site, and write its llms.txt: `make docs` does the rest.

The pages keep their places below the root, so that the links that work on GitHub work on the site.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLLECTED = ROOT / "build" / "site"
PAGES = ("*.md", "docs/*.md", "docs/decisions/*.md")
FILES = ("docs/*.png", "LICENSE", "examples/*.py", "deploy/*", "bench/**/*.py", "tests/**/*.py")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(```[a-z]+) .*$", re.MULTILINE)
"""The start of a block with words for the tests after its language, which the site cannot read."""
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def collect(root: Path, target: Path) -> list[Path]:
    """Copy the pages, and the files that they link to; return the pages' places."""
    shutil.rmtree(target, ignore_errors=True)
    pages = [path for pattern in PAGES for path in sorted(root.glob(pattern))]
    files = [path for pattern in FILES for path in sorted(root.glob(pattern)) if path.is_file()]
    for path in [*pages, *files]:
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            place.write_text(_FENCE.sub(r"\1", path.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(path, place)
    return [path.relative_to(root) for path in pages]


def describe(page: str) -> tuple[str, str]:
    """Return the title of a page and its first sentence."""
    title, _, rest = page.partition("\n")
    paragraphs = _CODE.sub("", rest).split("\n\n")
    words = next((each for each in paragraphs if each.strip()[:1].isalpha()), "")
    sentence = re.split(r"(?<=[.:]) ", " ".join(_LINK.sub(r"\1", words).split()), maxsplit=1)[0]
    return title.lstrip("# "), sentence


def write_index(root: Path, pages: list[Path]) -> str:
    """Return llms.txt: every page with its title and first sentence, for programs that read."""
    lines = ["# Wholecall", "", "> Makes any model's tool calls safe to run.", ""]
    for page in pages:
        title, sentence = describe((root / page).read_text("utf-8"))
        lines.append(f"- [{title}]({page.as_posix()}): {sentence}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Collect the pages below build/site."""
    pages = collect(ROOT, COLLECTED)
    (COLLECTED / "llms.txt").write_text(write_index(ROOT, pages), "utf-8")


if __name__ == "__main__":
    main()
