"""The structure of the package in numbers: `.venv/bin/python tests/house.py` prints them.

tests/test_house.py holds them. They say what a reader meets: how many files, how many names that
mean two things, how deep the imports go, how plain the words are.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "wholecall"
SMALL = 60
"""Lines of code below which a module needs a second importer."""
LONG = 46
"""Lines of the longest function that is still short."""
DEEP = 3
"""Blocks in blocks that can still be followed."""
MANY_FIELDS = 14
PARALLEL = re.compile(rf"{PACKAGE}\.protocols\.\w+\.(\w+)")
"""The files of a protocol's folder have the same names in each of them, on purpose."""
GERUND = re.compile(r"[a-z_]*[a-z]{2}ing")
NOUNS = frozenset({"routing", "string", "timing"})
ODD = re.compile(
    r"\b(nobody|somebody|whoever|in the midst|of ours|of theirs|behind|besides|is none|are none"
    r"|is no|are no|looked at|looked for|looked through|asked for|told|tells of|stands|comes by"
    r"|goes on|holds good|gone out)\b",
    re.IGNORECASE,
)
QUESTION = re.compile(r"(What|Whether|Where|Who|How|Why|Which|When|That)\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    | {tokenize.ENDMARKER}
)


@dataclass
class Module:
    """One file of the package."""

    name: str
    source: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)

    @property
    def stem(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @cached_property
    def texts(self) -> list[ast.Expr]:
        """The docstrings: also those of fields and constants."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Expr) and _says(node)]

    @cached_property
    def prose(self) -> list[str]:
        """Docstrings and comments."""
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        return [_says(node) for node in self.texts] + comments

    @cached_property
    def code_lines(self) -> int:
        """Count the lines with code; comments, blank lines and docstrings have none."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in self.texts:
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(lines)

    def imports(self, names: Iterable[str], *, at_start: bool = False) -> set[str]:
        """Which of these modules it imports; `at_start`: when it is imported itself."""
        known = frozenset(names)
        nodes = _run_at_start(self.tree) if at_start else ast.walk(self.tree)
        return {name for node in nodes for name in _imported(node, known)} - {self.name}


def _says(node: ast.Expr) -> str:
    value = node.value
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _imported(node: ast.AST, known: frozenset[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in known)
        case ast.ImportFrom(module=str(base), names=names):
            for alias in names:
                inner = f"{base}.{alias.name}"
                yield from [inner] if inner in known else known & {base}


def _run_at_start(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_at_start(node)


def read_package(root: Path = ROOT) -> dict[str, Module]:
    """The modules by their dotted names; a package is its `__init__`."""
    modules = {}
    for path in sorted((root / "src" / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path.read_text("utf-8"))
    return modules


def find_packages(modules: Iterable[str]) -> frozenset[str]:
    """The names that have others below them."""
    return frozenset(name.rpartition(".")[0] for name in modules)


def list_small(modules: Mapping[str, Module]) -> list[str]:
    """Small modules that one other module needs: they belong into it."""
    uses = Counter(name for module in modules.values() for name in module.imports(modules))
    packages = find_packages(modules)
    return [
        name
        for name, module in modules.items()
        if name not in packages and module.code_lines < SMALL and uses[name] == 1
    ]


def list_shared_classes(modules: Mapping[str, Module]) -> list[str]:
    """Public class names that several modules define."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].add(name)
    return sorted(each for each, names in owners.items() if len(set(map(_merge, names))) > 1)


def _merge(name: str) -> str:
    parallel = PARALLEL.fullmatch(name)
    return parallel[1] if parallel else name


def list_shared_files(modules: Mapping[str, Module]) -> list[str]:
    """File names that stand for several modules."""
    packages = find_packages(modules)
    own = (name for name in modules if name not in packages and not PARALLEL.fullmatch(name))
    counts = Counter(name.rpartition(".")[2] for name in own)
    return sorted(stem for stem, count in counts.items() if count > 1)


def list_gerunds(modules: Mapping[str, Module]) -> list[str]:
    """Modules named after an activity, not after a thing."""
    packages = find_packages(modules)
    return [
        name
        for name, module in modules.items()
        if name not in packages and GERUND.fullmatch(module.stem) and module.stem not in NOUNS
    ]


def longest_row(modules: Mapping[str, Module]) -> int:
    """The most modules that lie side by side in one folder."""
    packages = find_packages(modules)
    return max(Counter(n.rpartition(".")[0] for n in modules if n not in packages).values())


def deepest_layers(modules: Mapping[str, Module]) -> int:
    """The longest chain of imports inside one of the top folders."""
    folders: dict[str, set[str]] = defaultdict(set)
    for name in modules:
        if name.count(".") > 1:
            folders[name.split(".")[1]].add(name)
    return max(_layers(modules, own) for own in folders.values())


def _layers(modules: Mapping[str, Module], own: set[str]) -> int:
    needs = {name: modules[name].imports(own, at_start=True) for name in own}
    depths: dict[str, int] = {}
    while left := needs.keys() - depths.keys():
        ready = {name for name in left if needs[name] <= depths.keys()}
        if not ready:
            raise ValueError(f"these modules import each other: {sorted(left)}")
        depths |= {n: 1 + max((depths[o] for o in needs[n]), default=0) for n in ready}
    return max(depths.values(), default=0)


def list_long_functions(modules: Mapping[str, Module]) -> list[str]:
    """Functions over `LONG` lines."""
    return [
        f"{name}.{node.name}"
        for name, node in _functions(modules)
        if (node.end_lineno or 0) - node.lineno + 1 > LONG
    ]


def list_deep_functions(modules: Mapping[str, Module]) -> list[str]:
    """Functions with blocks that are nested more than `DEEP` times."""
    return [f"{name}.{node.name}" for name, node in _functions(modules) if _depth(node) > DEEP]


def _functions(
    modules: Mapping[str, Module],
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, _FUNCTIONS):
                yield name, node


def _depth(node: ast.AST, above: int = 0) -> int:
    deepest = above
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        inner = above + (isinstance(child, _BLOCKS) and not is_elif)
        deepest = max(deepest, _depth(child, inner))
    return deepest


def count_fields(modules: Mapping[str, Module]) -> dict[str, int]:
    """How many attributes each `__init__` sets."""
    counts = {}
    for name, node in _functions(modules):
        if node.name == "__init__":
            counts[f"{name}:{node.lineno}"] = len(
                {
                    each.attr
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
                }
            )
    return counts


def list_wide_classes(modules: Mapping[str, Module]) -> list[str]:
    """Classes that set more than `MANY_FIELDS` attributes."""
    return [name for name, count in count_fields(modules).items() if count > MANY_FIELDS]


def odd_words(texts: Iterable[str]) -> float:
    """Count the idioms of our own in 1,000 words."""
    kept = list(texts)
    words = sum(len(text.split()) for text in kept)
    return 1000 * sum(len(ODD.findall(text)) for text in kept) / max(words, 1)


def questions(modules: Mapping[str, Module]) -> float:
    """How many of 100 docstrings begin as a question does."""
    documented = (ast.Module, ast.ClassDef, *_FUNCTIONS)
    docs = [
        text
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]
    return 100 * sum(bool(QUESTION.match(text)) for text in docs) / max(len(docs), 1)


def count_words(page: str) -> int:
    """How many words a page of the repository has."""
    return len((ROOT / page).read_text("utf-8").split())


def measure() -> dict[str, float]:
    """All figures of the package as it is, by name."""
    modules = read_package()
    prose = [text for module in modules.values() for text in module.prose]
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    return {
        "modules": len(modules),
        "small modules with one importer": len(list_small(modules)),
        "public class names used twice": len(list_shared_classes(modules)),
        "file names used twice": len(list_shared_files(modules)),
        "file names that are gerunds": len(list_gerunds(modules)),
        "modules in the longest row": longest_row(modules),
        "import layers in the deepest folder": deepest_layers(modules),
        "functions over 46 lines": len(list_long_functions(modules)),
        "functions nested deeper than 3": len(list_deep_functions(modules)),
        "classes with more than 14 fields": len(list_wide_classes(modules)),
        "fields of the widest class": max(count_fields(modules).values()),
        "lines of code": sum(module.code_lines for module in modules.values()),
        "odd words in 1,000 of comments": round(odd_words(prose), 1),
        "odd words in 1,000 of docs": round(odd_words(pages), 1),
        "docstrings of 100 that ask": round(questions(modules), 1),
        "words in ARCHITECTURE.md": count_words("ARCHITECTURE.md"),
    }


if __name__ == "__main__":
    for title, figure in measure().items():
        print(f"{figure:8} {title}")  # noqa: T201
