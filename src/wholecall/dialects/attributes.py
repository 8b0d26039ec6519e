"""The attributes of a tag, as models write them: in any quotes, or in none."""

from __future__ import annotations

import re

_ATTRIBUTE = re.compile(
    r"""([A-Za-z_]\w{0,63}+)\s{0,8}=\s{0,8}"""
    r"""(?:"([^"]*+)"|'([^']*+)'|\u201c([^\u201d]*+)\u201d|([^\s"'\u201c>/]++))"""
)
_REST = re.compile(r"""(?:(?<!\S)[A-Za-z_]\w{0,63}+(?!\S)|[\s/,"'\u201c\u201d])*+""")
"""Text that may accompany attributes: a word without a value, a surplus quote or comma."""
_ENTITIES = (("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def read_attributes(text: str, glued: tuple[str, ...], *, escapes: bool) -> dict[str, str]:
    """Return the attributes by name; none if there is other text as well: then a quote was lost,
    and the end of a value is unknown.

    `glued` is what the tokenizer left between the tag and the attributes; `escapes` says whether
    they are written with entities.
    """
    for glue in glued:
        text = text.replace(glue, " ")
    if _REST.fullmatch(_ATTRIBUTE.sub("/", text)) is None:
        return {}
    return {
        found[1]: _unescape(next(filter(None, found.groups()[1:]), ""), escapes)
        for found in _ATTRIBUTE.finditer(text)
    }


def _unescape(text: str, escapes: bool) -> str:
    if escapes:
        for entity, mark in _ENTITIES:
            text = text.replace(entity, mark)
    return text
