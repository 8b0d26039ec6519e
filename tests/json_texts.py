"""JSON values, and the ways in which models write them."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)
FULL_OBJECTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)


class Style(NamedTuple):
    """How an object is written: as strict JSON, unless told otherwise."""

    quote: str = '"'
    python_words: bool = False
    trailing_comma: bool = False
    raw_controls: bool = False
    bare_keys: bool = False
    blank: str = " "


STYLES = st.builds(
    Style,
    quote=st.sampled_from("\"'"),
    python_words=st.booleans(),
    trailing_comma=st.booleans(),
    raw_controls=st.booleans(),
    bare_keys=st.booleans(),
    blank=st.sampled_from(["", " ", "\n  ", "\\n", " \\t"]),
)
_WORDS = {None: ("null", "None"), True: ("true", "True"), False: ("false", "False")}


def write(value: Any, style: Style) -> str:
    """Write a value in a style."""
    if isinstance(value, dict):
        members = [
            f"{_write_key(key, style)}:{style.blank}{write(member, style)}"
            for key, member in value.items()
        ]
        return _write_all("{", members, closer="}", style=style)
    if isinstance(value, list):
        return _write_all("[", [write(item, style) for item in value], closer="]", style=style)
    if isinstance(value, str):
        return _write_string(value, style)
    if value is None or isinstance(value, bool):
        return _WORDS[value][style.python_words]
    return repr(value)


def _write_all(opener: str, parts: list[str], *, closer: str, style: Style) -> str:
    comma = "," if style.trailing_comma and parts else ""
    inside = f",{style.blank}".join(parts)
    return f"{opener}{style.blank}{inside}{comma}{style.blank}{closer}"


def _write_key(key: str, style: Style) -> str:
    words = {word for pair in _WORDS.values() for word in pair}
    bare = style.bare_keys and key.isascii() and key.isidentifier() and key not in words
    return key if bare else _write_string(key, style)


def _write_string(text: str, style: Style) -> str:
    written = [_write_character(character, style) for character in text]
    return f"{style.quote}{''.join(written)}{style.quote}"


def _write_character(character: str, style: Style) -> str:
    if character in ("\\", style.quote):
        return f"\\{character}"
    if character < " " and not style.raw_controls:
        return f"\\u{ord(character):04x}"
    return character
