"""A small interpreter of GBNF: whether a text is one that a grammar allows.

It follows all ways at once, as llama.cpp does, and knows what our grammars use of the
notation: literals, character classes, groups, alternatives, `?`, `*`, `{m,n}`, rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

Ends: TypeAlias = frozenset[int]
Matcher: TypeAlias = Callable[[str, int], Ends]

_TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:\\.|[^"\\])*")|(?P<class>\[(?:\\.|[^\]\\])*\])'
    r"|(?P<name>[A-Za-z0-9-]+)|(?P<count>\{\d*,?\d*\})|(?P<mark>[()|?*]))"
)


def allows(grammar: str, text: str) -> bool:
    """Whether a grammar allows a text."""
    return len(text) in Grammar(grammar).rule("root")(text, 0)


class Grammar:
    """The rules of one grammar, each made into a matcher when it is needed."""

    def __init__(self, grammar: str) -> None:
        lines = (line.partition(" ::= ") for line in grammar.splitlines())
        self.bodies = {name: body for name, _, body in lines}
        self._rules: dict[str, Matcher] = {}

    def rule(self, name: str) -> Matcher:
        if name not in self._rules:
            body = self.bodies[name]
            parsed: list[Matcher] = []

            @cache
            def match(text: str, at: int) -> Ends:
                if not parsed:
                    parsed.append(_Parser(self, body).alternatives())
                return parsed[0](text, at)

            self._rules[name] = match
        return self._rules[name]


class _Parser:
    def __init__(self, grammar: Grammar, body: str) -> None:
        self._grammar = grammar
        self._tokens: list[tuple[str, str]] = []
        end = 0
        while body[end:].strip():
            found = _TOKEN.match(body, end)
            assert found is not None, f"no GBNF: {body[end:]}"
            self._tokens.append((found.lastgroup or "", found[found.lastgroup or ""]))
            end = found.end()
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def alternatives(self) -> Matcher:
        ways = [self._sequence()]
        while self._peek()[1] == "|":
            self._take()
            ways.append(self._sequence())
        return lambda text, at: frozenset().union(*(way(text, at) for way in ways))

    def _sequence(self) -> Matcher:
        parts: list[Matcher] = []
        while self._peek()[1] not in ("", "|", ")"):
            parts.append(self._counted(self._atom()))

        def match(text: str, at: int) -> Ends:
            ends: Ends = frozenset({at})
            for part in parts:
                ends = frozenset().union(*(part(text, end) for end in ends))
            return ends

        return match

    def _atom(self) -> Matcher:
        kind, token = self._take()
        if token == "(":
            inside = self.alternatives()
            assert self._take()[1] == ")"
            return inside
        if kind == "name":
            return self._grammar.rule(token)
        if kind == "class":
            pattern = re.compile(token)
            return lambda text, at: frozenset({at + 1} if pattern.match(text, at) else ())
        assert kind == "literal", token
        literal = re.sub(r"\\(.)", r"\1", token[1:-1])
        return lambda text, at: frozenset(
            {at + len(literal)} if text.startswith(literal, at) else ()
        )

    def _counted(self, atom: Matcher) -> Matcher:
        kind, token = self._peek()
        if token not in ("?", "*") and kind != "count":
            return atom
        self._take()
        least, most = {"?": (0, 1), "*": (0, None)}.get(token) or _count(token)

        def match(text: str, at: int) -> Ends:
            reached: Ends = frozenset({at})
            found: set[int] = set(reached) if least == 0 else set()
            times = 0
            while reached and (most is None or times < most):
                times += 1
                reached = frozenset().union(*(atom(text, end) for end in reached))
                if times >= least:
                    if reached <= found:
                        break
                    found |= reached
            return frozenset(found)

        return match


def _count(token: str) -> tuple[int, int | None]:
    least, comma, most = token[1:-1].partition(",")
    return int(least), int(most) if most else (None if comma else int(least))
