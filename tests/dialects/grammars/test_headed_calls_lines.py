"""Parameters in lines."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

from wholecall.dialects.dialect import Dialect, GrammarWithOpeners
from wholecall.dialects.grammars.headed_calls import LineCalls

MINE = Dialect(
    name="mine",
    written=(
        GrammarWithOpeners(
            ("<tool_call>",),
            LineCalls((">",), ("</tool_call>", "</function>"), begin="<function="),
        ),
        GrammarWithOpeners(("CALL ",), LineCalls(("\n",), ("END",), separator="=")),
    ),
)
HEAD = "<tool_call>\n<function=find>\n"

ROWS = [
    ("typed by the schema", HEAD + "query: 007\nlimit: 3\n</tool_call>so", 'find {"query": "007", "limit": 3} | \'so\''),
    ("without a schema", "<tool_call><function=any>\na: 7\nb: true\n</tool_call>", 'any {"a": "7", "b": "true"}'),
    ("both closers", HEAD + "query: x\n</function>\n</tool_call>so", "find {\"query\": \"x\"} | 'so'"),
    ("no parameters", "<tool_call><function=now>\n</tool_call>", "now {}"),
    ("a separator in the value", HEAD + "query: a: b\n</tool_call>", 'find {"query": "a: b"}'),
    ("the closer in the line", HEAD + "query: x </tool_call>", 'find {"query": "x"}'),
    ("empty lines", HEAD + "\nquery: x\n\n\nlimit: 1\n</tool_call>", 'find {"query": "x", "limit": 1}'),
    ("another separator", "CALL find\nquery=x\nEND", 'find {"query": "x"}'),
    ("a line that is none", HEAD + "query: x\nso what\n</tool_call>then", "!bad_markup find | 'then'"),
    ("a key that is none", HEAD + ": x\n</tool_call>", "'" + HEAD + ": x\n</tool_call>'"),
    ("prose", HEAD + "so what\n", "'" + HEAD + "so what\n'"),
    ("no header", "<tool_call>so", "'<tool_call>so'"),
    ("a name that is none", "<tool_call><function=a b>\n</tool_call>", "'<tool_call><function=a b>\n</tool_call>'"),
    ("cut in a value", HEAD + "query: x", "!truncated find"),
    ("cut behind a line", HEAD + "query: x\n", "!truncated find"),
    ("cut in a key", HEAD + "query: x\nlim", "!truncated find"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows(say: Callable[..., str], text: str, *, said: str) -> None:
    assert say(MINE, text) == said
