"""The docs site has every page, and llms.txt says what each is about."""

from pathlib import Path

import yaml

from make_site import PAGES, ROOT, collect, describe, write_index


def test_the_menu_has_every_page() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    named = {
        page
        for section in site["nav"]
        for entry in section.values()
        for page in ([entry] if isinstance(entry, str) else entry)
    }
    pages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")}
    assert pages <= named, f"mkdocs.yml lacks {sorted(pages - named)}"
    assert all((ROOT / page).exists() for page in named)


def test_a_page_is_described_by_its_first_sentence() -> None:
    page = "# Tools\n\n```python\nAn = 1\n```\n\nA [tool](tools.md) is a\nfunction. It may fail.\n"
    assert describe(page) == ("Tools", "A tool is a function.")
    assert describe("# Empty\n") == ("Empty", "")


def test_pages_are_collected_below_their_places(tmp_path: Path) -> None:
    pages = collect(ROOT, tmp_path / "site")
    assert pages == [path.relative_to(ROOT) for each in PAGES for path in sorted(ROOT.glob(each))]
    tutorial = (tmp_path / "site" / "docs" / "tutorial.md").read_text("utf-8")
    assert "```python\n" in tutorial
    assert "no-run" not in tutorial
    assert "- [Tutorial](docs/tutorial.md): " in write_index(ROOT, pages)
