"""The docs' programs print what the docs show, and the docs' links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from wholecall.proxy.config.load import load

ROOT = Path(__file__).parents[1]
SECONDS_FOR_A_PROGRAM = 60
SECONDS_FOR_A_CHECK = 300

FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*?)\s*$")
# Inline links and images, reference definitions, and the HTML that GitHub lets through.
LINK = re.compile(
    r"\]\(\s*<?([^\s<>)]+)|^\s*\[[^\]]+\]:\s+(\S+)|\b(?:src|srcset|href)=[\"']([^\"']+)"
)
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


class Block(NamedTuple):
    """A fenced block: the lines of its two fences, counted from 1, and what is between them."""

    first: int
    last: int
    info: str
    text: str


class Program(NamedTuple):
    """A Python block, with the output that the docs show below it (None: it is not run)."""

    line: int
    source: str
    output: str | None


class Link(NamedTuple):
    line: int
    target: str


def find_blocks(markdown: str) -> Iterator[Block]:
    lines = markdown.splitlines()
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = (number, fence["fence"], fence["info"])
        elif not fence["info"] and fence["fence"].startswith(opened[1]):
            first, _, info = opened
            yield Block(first, number, info, dedent("\n".join(lines[first : number - 1])))
            opened = None
    if opened is not None:
        raise ValueError(f"the fence opened in line {opened[0]} is never closed")


def find_programs(markdown: str) -> Iterator[Program]:
    lines = markdown.splitlines()
    nothing = Block(len(lines) + 1, len(lines) + 1, "", "")
    for block, following in pairwise([*find_blocks(markdown), nothing]):
        if block.info.split()[:1] != ["python"]:
            continue
        adjacent = not any(line.strip() for line in lines[block.last : following.first - 1])
        shown = adjacent and following.info in {"text", "output"}
        is_run = shown and block.info == "python"
        yield Program(block.first, block.text, following.text if is_run else None)


def find_links(markdown: str) -> Iterator[Link]:
    """Yield the relative links outside code, each without its fragment."""
    in_code = {
        number for block in find_blocks(markdown) for number in range(block.first, block.last + 1)
    }
    for number, line in enumerate(markdown.splitlines(), 1):
        if number in in_code:
            continue
        for groups in LINK.findall(INLINE_CODE.sub("", line)):
            target = "".join(groups)
            if not ELSEWHERE.match(target):
                yield Link(number, unquote(re.split(r"[#?]", target)[0]))


def read(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def existing(*patterns: str) -> list[str]:
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


PROGRAMS = {
    f"{document}:{program.line}": program
    for document in existing("README.md", "docs/*.md")
    for program in find_programs(read(document))
}


@pytest.mark.parametrize("place", PROGRAMS)
def test_the_program_compiles(place: str) -> None:
    compile(PROGRAMS[place].source, place, "exec")


@pytest.mark.parametrize(
    "place", [place for place, program in PROGRAMS.items() if program.output is not None]
)
def test_the_program_prints_what_is_shown(place: str, tmp_path: Path) -> None:
    program = PROGRAMS[place]
    assert program.output is not None
    assert run(program.source, tmp_path) == program.output.rstrip()


CHECKERS = {
    "mypy": ["mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "programs")],
    "pyright": ["basedpyright", "--pythonpath", sys.executable, "--level", "error"],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_programs_pass_a_type_checker(checker: str, tmp_path: Path) -> None:
    """What an editor shows a reader who copies a program, or opens one of the examples."""
    for place, program in PROGRAMS.items():
        if program.output is not None:
            (tmp_path / f"{re.sub(r'[^a-z0-9]', '_', place.lower())}.py").write_text(
                program.source, "utf-8"
            )
    for example in existing("examples/*.py"):
        (tmp_path / Path(example).name).write_text(read(example), "utf-8")
    # As an editor is set where nobody has changed it.
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', "utf-8")
    done = check_types(checker, tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_finds_a_wrong_type(checker: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG, "utf-8")
    done = check_types(checker, tmp_path)
    assert done.returncode == 1
    assert {f"wrong.py:{line}" for line in (10, 11)} == set(
        re.findall(r"wrong.py:\d+", done.stdout)
    )


WRONG = """from dataclasses import dataclass
import wholecall

@dataclass
class City:
    name: str

city = wholecall.ask_sync("openai/gpt-x", "Where?", output=City).output
print(city.name.upper())
city.population
wholecall.ask_sync("openai/gpt-x", "Where?", tool=[print])
"""


def check_types(checker: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *CHECKERS[checker], *map(str, sorted(folder.glob("*.py")))],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS_FOR_A_CHECK,
        check=False,
    )


def run(source: str, folder: Path) -> str:
    """Run a program as a reader would, in a folder that holds nothing else."""
    script = folder / "program.py"
    script.write_text(source, "utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", str(script)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS_FOR_A_PROGRAM,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip()


# Files of other programs; all others are ours.
FOREIGN = ("model_list:", "scrape_configs:")
CONFIGURATIONS = {
    f"{document}:{block.first}": block.text
    for document in existing("README.md", "docs/*.md")
    for block in find_blocks(read(document))
    if block.info == "yaml" and not any(word in block.text for word in FOREIGN)
}


def test_there_are_configurations() -> None:
    assert len(CONFIGURATIONS) > 5


@pytest.mark.parametrize("place", CONFIGURATIONS)
def test_the_configuration_is_good(place: str, tmp_path: Path) -> None:
    file = tmp_path / "wholecall.yaml"
    file.write_text(CONFIGURATIONS[place], "utf-8")
    load(file, {}, without_keys=True)


@pytest.mark.parametrize(
    "document", existing("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md")
)
def test_every_relative_link_leads_to_a_file(document: str) -> None:
    folder = (ROOT / document).parent
    broken = [
        f"{document}:{link.line} links to {link.target!r}, which is not there"
        for link in find_links(read(document))
        if not (folder / link.target).exists()
    ]
    assert not broken, "\n".join(broken)


SAMPLE = """\
# Sample

```python
print("shown")
```

```text
shown
```

- in a list, under longer fences:

  ````python
  if True:
      print("indented")
  ````
  ~~~output
  indented
  ~~~

```python
print("prose stands between")
```
The output:
```text
unrelated
```

```python no-run
serve_for_ever()
```
```text
never compared
```

```bash
echo no program
```
```text
no program
```

```python
print("the last block")
```
"""


def test_the_programs_of_a_document_are_found() -> None:
    assert list(find_programs(SAMPLE)) == [
        Program(3, 'print("shown")', "shown"),
        Program(13, 'if True:\n    print("indented")', "indented"),
        Program(21, 'print("prose stands between")', None),
        Program(29, "serve_for_ever()", None),
        Program(43, 'print("the last block")', None),
    ]


def test_a_fence_inside_a_longer_fence_is_text() -> None:
    [block] = find_blocks("````markdown\n```python\n```\n````\n")
    assert block == Block(1, 4, "markdown", "```python\n```")


def test_a_fence_that_is_never_closed_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2 is never closed"):
        list(find_blocks("text\n```python\npass\n"))


def test_a_document_without_programs_has_none() -> None:
    assert list(find_programs("# Only prose\n")) == []


def test_a_program_that_fails_is_reported_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0", tmp_path)


def test_a_program_gives_its_output_and_keeps_inner_spaces(tmp_path: Path) -> None:
    assert run('print(" é  ")\nprint("b \\n")', tmp_path) == " é  \nb"


def test_the_relative_links_of_a_document_are_found() -> None:
    sample = """\
[one](docs/one.md) and [![badge](pictures/badge.svg)](two.md#part "title")
[far](https://example.org/x) [mail](mailto:a@example.org) [here](#heading)
`[code](no/link.md)` then [three](<three%20words.md>)
```python
[fenced](no/link.md)
```
<img src="pictures/four.png"> <a href='five.md?plain=1'>five</a>

[six]: six.md
"""
    assert list(find_links(sample)) == [
        Link(1, "docs/one.md"),
        Link(1, "pictures/badge.svg"),
        Link(1, "two.md"),
        Link(3, "three words.md"),
        Link(7, "pictures/four.png"),
        Link(7, "five.md"),
        Link(9, "six.md"),
    ]
