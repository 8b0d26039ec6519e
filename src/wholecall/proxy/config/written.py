"""Parse a file, with the line of every value.

The file is YAML, read by the rules of YAML 1.2: `no` and `on` are words, `1e6` is a number. PyYAML
gives the nodes; the value of a plain word is decided here. Tags, through which PyYAML creates
objects, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from wholecall.core.words import cut
from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Position
from wholecall.proxy.config.secret import Secret

CHARACTERS = 256 * 1024
"""Of a file. A hundred models take 20 thousand."""
VALUES = 20_000
"""Of a file, with what its aliases stand for: ten lines of them can stand for a billion."""
DEPTH = 16
"""Of values in each other. The settings need six levels."""

Scalar: TypeAlias = str | int | float | bool | Secret | None


@dataclass(frozen=True, slots=True)
class Written:
    """A value, and where it was written."""

    value: Scalar | tuple[Written, ...] | Mapping[str, Written]
    place: Position


# YAML 1.2, chapter 10.3.2: the value of a word without quotes.
_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Scalar]], ...] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,18}"), int),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
)
_DEFAULT_TAGS = frozenset(
    {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
)

# Its brace would end the braces around it.
_QUOTES = "inside of { } and [ ], ${NAME} needs quotes"


def compose(text: str, file: str, *, line: int | None = 1) -> Written:
    """Read a text; `line` None: it is the value of the environment variable `file`."""
    return _Composer(file, first_line=line).compose(text)


class _Composer:
    """Turns the nodes of one text into values."""

    def __init__(self, file: str, *, first_line: int | None) -> None:
        self._file = file
        self._first_line = first_line
        self._values = 0

    def compose(self, text: str) -> Written:
        if len(text) > CHARACTERS:
            raise self._refuse(None, f"it has more than {CHARACTERS} characters")
        try:
            node = yaml.compose(text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._refuse(mark, f"this is no YAML: {_explain(error, text)}") from None
        except yaml.YAMLError as error:
            raise self._refuse(None, f"this is no YAML: {cut(str(error))}") from None
        except RecursionError:
            raise self._refuse(None, f"it is nested more than {DEPTH} levels deep") from None
        if node is None:
            return Written({} if self._first_line else None, Position(self._file, self._first_line))
        return self._read(node, DEPTH)

    def _read(self, node: yaml.Node, depth: int) -> Written:
        self._values += 1
        if self._values > VALUES:
            raise self._refuse(node.start_mark, f"it has more than {VALUES} values")
        if depth == 0:
            raise self._refuse(node.start_mark, f"it is nested more than {DEPTH} levels deep")
        if node.tag not in _DEFAULT_TAGS:
            raise self._refuse(
                node.start_mark, f"the tag {node.tag!r} is not allowed: leave it out"
            )
        place = self._place(node.start_mark)
        match node:
            case yaml.ScalarNode():
                return Written(_read_scalar(node), place)
            case yaml.MappingNode():
                return Written(dict(self._read_members(node, depth - 1)), place)
            case _:
                return Written(tuple(self._read(item, depth - 1) for item in node.value), place)

    def _read_members(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Written]]:
        seen: dict[str, Position] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key.start_mark, "the name of a setting must be a word")
            name = key.value
            if name in seen:
                again = f"{name!r} was written in line {seen[name].line} already: keep one of them"
                raise self._refuse(key.start_mark, again)
            seen[name] = self._place(key.start_mark)
            written = self._read(value, depth)
            # A setting is found by its name, although its value may begin in the next line.
            yield name, Written(written.value, seen[name])

    def _place(self, mark: yaml.Mark | None) -> Position:
        if self._first_line is None or mark is None:
            return Position(self._file, self._first_line)
        return Position(self._file, self._first_line + mark.line)

    def _refuse(self, mark: yaml.Mark | None, message: str) -> ConfigError:
        return ConfigError([ConfigProblem(self._place(mark), "", message)])


def _read_scalar(node: yaml.ScalarNode) -> Scalar:
    text: str = node.value
    if node.style is None:
        for pattern, read in _PLAIN:
            if pattern.fullmatch(text):
                return read(text)
    return text


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    said = cut(", ".join(part for part in (error.context, error.problem) if part))
    mark = error.problem_mark
    # An unclosed bracket is reported at the end: after the last line.
    lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
    return f"{said}; {_QUOTES}" if any("${" in line for line in lines) else said
