"""Write calls and results in a dialect: for histories, and for prompts with an example.

A template is the inverse of a grammar. What a format cannot carry is refused here, not written in a
way that would be read as something else:

| notation | cannot carry                                                            |
|----------|-------------------------------------------------------------------------|
| JSON     | nothing is lost: every JSON object                                      |
| TAGS     | a value that holds a tag of the format; a name or key that is not a     |
|          | word; a type that neither an attribute nor the tool's schema gives      |
| PYTHON   | a key that is not an identifier; a name that is not a word              |
| GEMMA    | a string that holds the quoting mark; a name or key that is not a word  |
| YAML     | a tool name that is not a word                                          |
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wholecall.core.values import JSON
from wholecall.dialects.source import BLANKS
from wholecall.dialects.yaml_writing import write_yaml


class Notation(enum.Enum):
    """The notation of a call's arguments."""

    JSON = "json"  # one object
    TAGS = "tags"  # one for each parameter
    PYTHON = "python"  # keyword arguments
    GEMMA = "gemma"  # keys and values with quoting marks
    YAML = "yaml"  # a block


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a call: `{name}`, `{arguments}` and `{index}` are filled in."""

    call: str
    before: str = ""
    between: str = ""
    after: str = ""
    notation: Notation = Notation.JSON
    value: str = ""
    """One parameter as a tag: `{key}`, `{value}`, `{string}` (true or false), `{type}`."""
    quote: str = ""
    """The mark around Gemma's strings."""
    marks: tuple[str, ...] = ()
    """Text that a value must not contain; `{key}` is filled in."""
    trims: bool = False
    """White space around a value is lost."""
    result: str = (
        "<tool_response>\n"
        '{"name": {name_json}, {id_member}"content": {output_json}}\n</tool_response>'
    )
    """The text of a result: `{name}`, `{id}`, `{output}`, the same as JSON (`{name_json}`, …), and
    `{id_member}`, which is empty without an id."""


_WORD = re.compile(r"[A-Za-z_][\w.\-]*\Z")
_HOLE = re.compile(r"\{(\w+)\}")
_PYTHON_WORDS = {True: "True", False: "False", None: "None"}
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (str, "string"),
    (int, "number"),
    (float, "number"),
    (Mapping, "object"),
    (list, "array"),
    (tuple, "array"),
)


def encode_calls(template: Template, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> str:
    """Write calls, each a name and its arguments; ValueError for what cannot be carried."""
    write = _NOTATIONS[template.notation]
    written = [
        _fill(
            template.call,
            {
                "name": name,
                "arguments": write(template, arguments),
                "index": str(index),
                "name_json": _dump(name),
            },
        )
        for index, (name, arguments) in enumerate(_checked(template, calls))
    ]
    return template.before + template.between.join(written) + template.after


def encode_result(template: Template, name: str, *, output: str, id: str = "") -> str:
    """Write the result of a call."""
    holes = {"name": name, "output": output, "id": id}
    written = {f"{key}_json": _dump(text) for key, text in holes.items()}
    id_member = f'"id": {_dump(id)}, ' if id else ""
    return _fill(template.result, {**holes, **written, "id_member": id_member})


def _checked(
    template: Template, calls: Iterable[tuple[str, Mapping[str, JSON]]]
) -> Iterable[tuple[str, Mapping[str, JSON]]]:
    for name, arguments in calls:
        if template.notation is not Notation.JSON and not _WORD.match(name):
            raise ValueError(f"the tool name {name!r} cannot be written here")
        yield name, arguments


def _fill(template: str, holes: Mapping[str, str]) -> str:
    """Put values into a template, all at once: a value is never read as a template."""
    return _HOLE.sub(lambda hole: holes.get(hole[1], hole[0]), template)


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


# ── Notations ───────────────────────────────────────────────────────────────────────


def _write_json(_: Template, arguments: Mapping[str, JSON]) -> str:
    return _dump(arguments)


def _write_tags(template: Template, arguments: Mapping[str, JSON]) -> str:
    return "".join(_write_tag(template, key, value=value) for key, value in arguments.items())


def _write_tag(template: Template, key: str, *, value: JSON) -> str:
    text = value if isinstance(value, str) else _dump(value)
    if not _WORD.match(key):
        raise ValueError(f"the parameter name {key!r} cannot be written in a tag")
    _refuse_marks(key, text, marks=tuple(_fill(mark, {"key": key}) for mark in template.marks))
    if template.trims and text != text.strip(BLANKS):
        raise ValueError(f"the value of {key!r} has white space around it, which would be lost")
    if text.endswith("\r") and "{value}\n" in template.value:
        raise ValueError(f"the value of {key!r} ends in a carriage return, which would be lost")
    string = "true" if isinstance(value, str) else "false"
    return _fill(
        template.value, {"key": key, "value": text, "string": string, "type": _type_of(value)}
    )


def _refuse_marks(key: str, text: str, *, marks: tuple[str, ...]) -> None:
    for mark in marks:
        if mark in text:
            raise ValueError(f"the value of {key!r} holds {mark!r}, which would end it")


def _type_of(value: JSON) -> str:
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def _write_python(_: Template, arguments: Mapping[str, JSON]) -> str:
    for key in arguments:
        if not key.isidentifier():
            raise ValueError(f"the parameter name {key!r} is no identifier")
    return ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())


def _python(value: JSON) -> str:
    if value is None or isinstance(value, bool):
        return _PYTHON_WORDS[value]
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_dump(key)}: {_python(each)}" for key, each in value.items()) + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_python, value)) + "]"
    return _dump(value)


def _write_gemma(template: Template, arguments: Mapping[str, JSON]) -> str:
    return _gemma(template.quote, arguments)


def _gemma(quote: str, value: JSON) -> str:
    if isinstance(value, str):
        _refuse_marks("a string", value, marks=(quote,))
        return f"{quote}{value}{quote}"
    if isinstance(value, Mapping):
        for key in value:
            if not _WORD.match(key):
                raise ValueError(f"the parameter name {key!r} cannot be written here")
        return "{" + ",".join(f"{key}:{_gemma(quote, each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_gemma(quote, each) for each in value) + "]"
    return _dump(value)


def _write_yaml(_: Template, arguments: Mapping[str, JSON]) -> str:
    return write_yaml(arguments)


_NOTATIONS: dict[Notation, Callable[[Template, Mapping[str, JSON]], str]] = {
    Notation.JSON: _write_json,
    Notation.TAGS: _write_tags,
    Notation.PYTHON: _write_python,
    Notation.GEMMA: _write_gemma,
    Notation.YAML: _write_yaml,
}
