"""What a dialect is: markers, grammar, channels, and the template that writes calls and results."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from wholecall.dialects.char_stream import BLANKS, Steps
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext
from wholecall.errors import UnusableDialect
from wholecall.events import JSON

_STEP = "  "
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w\-]*\Z")
# Lines that begin with no blank and hold nothing but what is seen, and no empty one at the end.
_PLAIN_TEXT = re.compile(r"[^\s\x00-\x1f\x7f-\x9f][^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]*\Z")


def write_yaml(arguments: Mapping[str, JSON]) -> str:
    """A mapping, each line with its end."""
    return "".join(f"{line}\n" for line in _members(arguments, ""))


def _members(mapping: Mapping[str, JSON], indent: str) -> Iterator[str]:
    for key, value in mapping.items():
        spelled = key if _PLAIN_KEY.match(key) else _dump_scalar(key)
        first, *rest = _lines(value, indent)
        yield f"{indent}{spelled}:{first}"
        yield from rest


def _items(items: list[JSON] | tuple[JSON, ...], indent: str) -> Iterator[str]:
    for value in items:
        first, *rest = _lines(value, indent)
        yield f"{indent}-{first}"
        yield from rest


def _lines(value: JSON, indent: str) -> Iterator[str]:
    """Yield the text after a key or a dash, and the lines below it."""
    if value and isinstance(value, Mapping):
        yield ""
        yield from _members(value, indent + _STEP)
    elif value and isinstance(value, (list, tuple)):
        yield ""
        yield from _items(value, indent + _STEP)
    elif isinstance(value, str) and _is_block(value):
        yield " |-"
        yield from (indent + _STEP + line if line else "" for line in value.split("\n"))
    else:
        yield f" {_dump_scalar(value)}"


def _is_block(text: str) -> bool:
    return "\n" in text and not text.endswith("\n") and bool(_PLAIN_TEXT.match(text))


def _dump_scalar(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


# Write calls and results in a dialect: for histories, and for prompts with an example.
#
# A template is the inverse of a grammar. What a format cannot carry is refused here, not written in
# a way that would be read as something else:
#
# | notation | cannot carry                                                            |
# |----------|-------------------------------------------------------------------------|
# | JSON     | nothing is lost: every JSON object                                      |
# | TAGS     | a value that holds a tag of the format; a name or key that is not a     |
# |          | word; a type that neither an attribute nor the tool's schema gives      |
# | PYTHON   | a key that is not an identifier; a name that is not a word              |
# | GEMMA    | a string that holds the quoting mark; a name or key that is not a word  |
# | YAML     | a tool name that is not a word                                          |


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


# The declaration of a format: its markers, its grammar, its channels. Data without parsing code.


@runtime_checkable  # a stored dialect is checked by msgspec, which asks for it
class Grammar(Protocol):
    """The grammar of a family of formats."""

    def read(self, machine: ParserContext, opener: str, /) -> Steps[bool]:
        """Read a call after its opener (or, without one, at the beginning of the answer).

        Return False if this is not a call; then no delta was produced, and what was read is text.
        """


@dataclass(frozen=True, slots=True)
class Channel:
    """The content between two markers: reasoning, or text without calls."""

    open: str
    close: tuple[str, ...]
    prompted: bool = False
    """The prompt may have opened it already: the answer then begins inside."""
    private: bool = False
    """A message of the model to itself: no call in it is meant, even if its end is missing."""


THINK = Channel("<think>", ("</think>",), prompted=True)


END_TOKENS = (
    "</s>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<eos>",
    "<seed:eos>",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_msg|>",
    "[e~[",
    "<|end▁of▁sentence|>",
    "<\uff5cend▁of▁sentence\uff5c>",
)
"""Tokens that end an answer. Servers sometimes pass them on by mistake."""


RESULTS = {f"<{tag}>": (f"</{tag}>",) for tag in ("tool_response", "tool_result")}
"""Markers around the results of calls. A model that writes them makes the results up."""
TURNS = (
    *(f"<|im_start|>{role}" for role in ("user", "tool", "system")),
    *(f"<|start_header_id|>{role}<|end_header_id|>" for role in ("user", "ipython", "tool")),
    "<start_of_turn>user",
    "<|observation|>",
    "<|user|>",
    "<\uff5cUser\uff5c>",
    "<\uff5ctool▁outputs▁begin\uff5c>",
    "<|start|>user",
    "<|start|>functions.",
    "[TOOL_RESULTS]",
)
"""Markers of another role's turn: written by a model that continues past its own end."""
OBSERVED = "\nObservation:"
"""The same in answers that reason and act in turns. Without a call before it, it is a word."""
FOREIGN = (*RESULTS, *TURNS, OBSERVED)


class Named(enum.Enum):
    """The beginning of a call whose only marker is the name of a tool."""

    TAGS = "tags"  # `<search><query>x</query></search>`
    EMPTY = "empty"  # `<search/>`
    YAML = "yaml"  # a block of YAML in such a tag
    HEADS = "heads"  # `search[ARGS]{"query": "x"}`


@dataclass(frozen=True, slots=True)
class GrammarWithOpeners:
    """A grammar and what may stand before it."""

    openers: tuple[str, ...]
    grammar: Grammar


TOKENS = ("<|", "<\uff5c")
"""The beginnings of a model's special tokens, which prose hardly holds."""
# Words that may stand before the name of a tool; without an opener: `_BARE_OPENERS` of the engine.
_CALL_WORDS = ("functions.", "function", "default_api.", "tools.", "print", "call")


@dataclass(frozen=True, slots=True)
class OfferedOnly:
    """A grammar of another format: only the name of an offered tool shows that it was meant."""

    grammar: Grammar

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read a call of an offered tool; False without one. Where words follow the opener,
        the first one decides, so that prose is not held back. Attributes may follow the name of
        a tag, a tag may go on with a suffix, and a token of a model is not prose."""
        place = machine.source.bookmark()
        word = yield from machine.source.word(LONGEST_NAME)
        machine.source.rewind(place)
        machine.source.forget()
        names = (*_CALL_WORDS, *filter(None, machine.offer or ()))
        begun = opener.removeprefix("\n")
        unfinished = opener[-1:].isalnum() or (begun.startswith("<") and begun.endswith(":"))
        plain = not unfinished and not begun.startswith(TOKENS)
        if word and plain and not word.startswith(names):
            return False
        rescues, machine.rescues = machine.rescues, True
        try:
            return (yield from self.grammar.read(machine, begun))
        finally:
            machine.rescues = rescues


@dataclass(frozen=True, slots=True)
class AfterShorter:
    """The grammars of an opener that the opener of another format begins with. They are tried
    first, at the end of their own: a longer mark is found first and must not take their place."""

    opener: str
    grammars: tuple[Grammar, ...]

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read a call after the shorter opener; False without one."""
        source = machine.source
        source.at -= len(opener.removeprefix("\n")) - len(self.opener)
        place, found = source.bookmark(), False
        for grammar in self.grammars:
            found = yield from grammar.read(machine, self.opener)
            if found or source.place - place > LONGEST_NAME:
                break
            source.rewind(place)
        source.forget()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What models write although another format was announced."""

    written: tuple[GrammarWithOpeners, ...] = ()
    """After the same openers, or after those of other formats."""
    bare: tuple[Grammar, ...] = ()
    alone: tuple[Grammar, ...] = ()
    fenced: tuple[tuple[str, Grammar], ...] = ()
    reasoning: tuple[Channel, ...] = ()
    named: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One textual form of tool calls."""

    name: str
    written: tuple[GrammarWithOpeners, ...] = ()
    bare: tuple[Grammar, ...] = ()
    """Grammars that need no marker where the answer begins."""
    bare_words: bool = False
    """They may begin with a word there, and not only with a bracket."""
    alone: tuple[Grammar, ...] = ()
    """Grammars that need no marker if the call is the whole answer."""
    fenced: tuple[tuple[str, Grammar], ...] = ()
    """Grammars of code fences by their language, where a fence is the whole answer."""
    reasoning: tuple[Channel, ...] = (THINK,)
    texts: tuple[Channel, ...] = ()
    """Channels for the user."""
    dropped: tuple[str, ...] = ()
    """Markers that are never text: stray closers, channels of text."""
    remains: tuple[str, ...] = END_TOKENS
    """Markers that are not text directly after a call, in addition to the dropped ones."""
    named: tuple[Named, ...] = ()
    """The beginnings of calls, for tools whose name is the marker."""
    rescues: bool = False
    """True if the model was not instructed to write in this format: an unknown name is prose."""
    drops_unknown: bool = False
    """Parameters that a schema does not name are left out, as the model's own parser does."""
    template: Template | None = None
    """The template for writing calls; None if the dialect is only read."""
    models: str = ""
    """The models that write it."""
    drift: Drift = field(default=Drift(), compare=False)
    """What models write although this format was announced; derived, not stored."""

    def amid(
        self, *, reasoning: tuple[Channel, ...] = (THINK,), dropped: tuple[str, ...] = ()
    ) -> Dialect:
        """Return the same calls in answers with this reasoning and these further dropped
        markers."""
        return replace(self, reasoning=reasoning, dropped=(*self.dropped, *dropped))

    def spelled(self, *others: Dialect) -> Dialect:
        """The same, read in other spellings, too; calls are written back in its own."""
        return replace(
            self,
            written=(*self.written, *(each for other in others for each in other.written)),
            dropped=(*self.dropped, *(each for other in others for each in other.dropped)),
        )


def template_of(dialect: Dialect) -> Template:
    """Return the template of a dialect; `UnusableDialect` if it can only be read."""
    if dialect.template is None:
        raise UnusableDialect(
            f"nothing is written in the dialect {dialect.name!r}: it can only be read"
        )
    return dialect.template
