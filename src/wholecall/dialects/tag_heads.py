"""Opening tags: their form, and the name in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from wholecall.dialects.attributes import read_attributes

_AROUND_NAME = "\"'=, "
"""Characters that models leave around a name in addition to quotes: `<function=search, {…}`."""


@dataclass(frozen=True, slots=True)
class Tag:
    """An opening tag: `<function=NAME>`, `<invoke name="NAME">`, `<arg_key>NAME</arg_key>`."""

    begin: str
    end: tuple[str, ...] = (">",)
    attribute: str = ""
    """The attribute that holds the name; without one, the name is the text between."""
    then: str = ""
    """A second tag between the name and the value: `<arg_value>`."""
    keeps: tuple[str, ...] = ()
    """Ends that stand for themselves and are not read with the tag."""
    glued: str = ""
    """The end of a first parameter whose opening tag was left out: `searchquery</arg_key>`."""
    escapes: bool = False
    """True if attributes are written with entities."""

    @property
    def nameless(self) -> tuple[str, ...]:
        """The tag as models write it that forget the name: `<parameter>`."""
        return (f"{self.begin[:-1]}>",) if self.begin.endswith("=") else ()

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The forms of the tag without a proper name: `<parameter>`, `<parameter name="query">` of
        another format, `<arg_value>`."""
        if self.then:
            return (self.then,)
        return tuple(form for tag in self.nameless for form in (tag, f"{tag[:-1]} "))

    @property
    def stops(self) -> tuple[str, ...]:
        """Signs that the tag has no end: the beginning of another one."""
        return ("<",) if self.attribute and self.end == (">",) else ()


@dataclass(slots=True)
class Head:
    """The content of an opening tag."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    closed: bool = False
    """`<invoke name="f"/>`"""
    glued: bool = False
    """The name is followed by a key."""
    opening: str = ""
    """The tag itself."""
    unopened: bool = False
    """The second tag, which opens the value, was left out: only its closing tag ends it."""


def head_of(
    tag: Tag, text: str, *, remains: tuple[str, ...] = (), unopened: bool = False
) -> Head | None:
    """Parse the text of a tag; None if it holds no name.

    `remains` is what the tokenizer left between the tag and its attributes.
    """
    if not tag.attribute:
        name = text.strip().strip(_AROUND_NAME)
        return Head(name, unopened=unopened) if _is_name(name, tag) else None
    attributes = read_attributes(text, remains, escapes=tag.escapes)
    if tag.attribute not in attributes:
        return None
    return Head(attributes[tag.attribute], attributes, text.rstrip().endswith("/"))


def _is_name(text: str, tag: Tag) -> bool:
    """Return True if this may be a name. If another tag ends it, it may hold brackets."""
    brackets = tag.begin if tag.end[0].startswith("</") else "<"
    return "\n" not in text and brackets not in text
