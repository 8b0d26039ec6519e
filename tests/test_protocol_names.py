"""The name of a protocol or of its provider is in its own folder, and in few other places.

Checked are identifiers and strings. Comments and docstrings may cite a case by the provider in
which it was found.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wholecall.dialects.dialect_registry import DIALECTS

PACKAGE = Path(__file__).parents[1] / "src" / "wholecall"
NAMED = re.compile("anthropic|openai|gemini|ollama|bedrock|cohere", re.IGNORECASE)
# Where they may be, and why.
ALLOWED = {
    "protocols/registry.py": "one line for each protocol",
    "integrations/langchain_middleware.py": "the name of a function of LangChain",
    "protocols/anthropic/": "its own folder",
    "protocols/bedrock.py": "its own file",
    "protocols/bedrock_invoke.py": "its own file",
    "protocols/cohere.py": "its own file",
    "protocols/gemini/": "its own folder",
    "protocols/gemini_interactions.py": "its own file",
    "protocols/ollama.py": "its own file",
    "protocols/openai_chat/": "its own folder",
    "protocols/openai_responses/": "its own folder",
    "upstreams/providers.py": "the prefixes of models, their addresses and variables",
    "upstreams/litellm.py": "LiteLLM raises the exceptions of the openai package",
    "dialect_files.py": "the formats that a file may name",
    "dialects/": "text formats and models have names of their own",
    "faults/": "writes each wire by itself, so that a mistake in protocols/ cannot hide",
    "cli/": "help texts, and lines for the user to copy",
    "proxy/handlers/background.py": "only this protocol has answers that are not over yet",
}
FILES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if not path.relative_to(PACKAGE).as_posix().startswith(tuple(ALLOWED))
)


def list_words(source: str) -> Iterator[str]:
    """Yield the identifiers and strings of a module, but for docstrings."""
    tree = ast.parse(source)
    alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() | bytes() as text) if node not in alone:
                yield str(text)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.ImportFrom(module=str() as name):
                yield name


def find_names(source: str) -> list[str]:
    words = (word for word in list_words(source) if word not in DIALECTS)
    return [word for word in words if NAMED.search(word)]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_module_names_no_protocol(path: Path) -> None:
    assert find_names(path.read_text("utf-8")) == []


@pytest.mark.parametrize("place", ALLOWED)
def test_each_exception_is_still_needed(place: str) -> None:
    path = PACKAGE / place
    files = path.rglob("*.py") if path.is_dir() else [path]
    assert any(find_names(file.read_text("utf-8")) for file in files)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 'openai-chat'", ["openai-chat"]),
        ("def read_gemini(): pass", ["read_gemini"]),
        ("async def ollama(): pass", ["ollama"]),
        ("from wholecall.protocols.anthropic import stream", ["wholecall.protocols.anthropic"]),
        ("f'{x} of Anthropic'", [" of Anthropic"]),
        ("headers = (b'anthropic-beta',)", ["b'anthropic-beta'"]),
        ('"""Anthropic sends it so."""', []),
        ("x = 1  # as OpenAI does", []),
        ("read('anthropic_xml')", []),
    ],
)
def test_what_counts_as_a_name(source: str, found: list[str]) -> None:
    assert find_names(source) == found
