"""Quotations in an answer: quoted text is prose, whatever it looks like.

Three kinds of marks quote what follows them:

- *Blocks* last until they are closed: code fences, HTML comments, `<pre>`, `<think>`, CDATA,
  LaTeX's `verbatim`, a straight quotation mark or a backtick alone on its line.
- *Quotation marks* with a different closing mark (`“ ”`, `« »`, `「 」`) last until then, or until
  the paragraph ends.
- *Marks of a line* last to its end at most: the `>` of a block quote, the `//` or `#` of a comment,
  a code span, a straight quotation mark right before the position.

Text is only collected while it arrives, because hardly any answer holds a call. It is read on
demand, each character once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_MOST = 16_384
"""Characters that are collected before they are read. This bounds the memory."""
_HEAD = 128
"""Characters of a line that are kept to see how it begins."""
_TAIL = 32
"""Characters before a position that are kept to see what directly precedes it."""

_DEEPEST = 16
"""The deepest nesting of quotation marks. A text with more has lost count."""
_TAGS = (
    "pre|code|blockquote|quote|samp|kbd|xmp|listing|textarea"
    "|think|thinking|thought|reasoning|reflection|scratchpad"
)
_ENVIRONMENTS = r"(?:verbatim|Verbatim|lstlisting|minted|alltt|quote|quotation|comment)\*?"
# The marks of many languages; some of them look alike on purpose.
_CLOSERS = dict(
    zip("“„‟«‹「『《〈〝", ("”", "“”", "”", "»", "›", "」", "』", "》", "〉", "〞"), strict=True)  # noqa: RUF001
)
_TOKEN = re.compile(
    rf"""
    (?P<ticks>`+)
    | (?P<comment><!--) | (?P<cdata><!\[CDATA\[)
    | <(?P<tag>{_TAGS})\b
    | \\begin\{{(?P<environment>{_ENVIRONMENTS})\}}
    | (?P<mark>[{"".join({*_CLOSERS, *"".join(_CLOSERS.values())})}])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BLOCKS = {"comment": "-->", "cdata": "]]>", "tag": "</{}", "environment": "\\end{{{}}}"}
"""The end of each kind of block."""
_PREFIX = r"(?:[ \t>]|(?:[-*+]|\d{1,9}[.)])[ \t])*+"
"""The marks of block quotes and lists that may precede a fence on its line."""
_FENCE = re.compile(rf"{_PREFIX}(?P<fence>`{{3,}}(?!.*`)|~{{3,}})")
_LINE_PREFIX = re.compile(_PREFIX)
_COMMENT = re.compile(r"[ \t]*+(?://|#|/\*)")
_QUOTE_LINES = frozenset({'"', "'", '"""', "'''", "`", "``"})
"""Lines that begin a quotation, and end the one that they began."""
_BEFORE_TAGS = re.compile(rf"{_PREFIX}(?:<[^<>]*>[ \t]*+)*+\Z")
"""A tag begins a block if nothing but other tags precedes it on its line; elsewhere it is only
mentioned."""
_MARKED = re.compile(r"""(?:(?:\A|[\s(\[{:>*_,-])["'＂”»‘’]|(?:\A|\s)["'＂”»][ \t]+)\Z""")  # noqa: RUF001
"""A mark that may begin or end a quotation begins one if no word directly precedes it."""
_INDENTED = re.compile(r"\n[ \t]*+\r?\n(?: {4}|\t)[ \t]*\Z")


class _State(NamedTuple):
    """The state at the end of the text."""

    fence: str = ""
    """The mark of the open fence."""
    closer: str = ""
    """The end of the open block of another kind."""
    marks: tuple[str, ...] = ()
    """The closing marks of the open quotation marks, the innermost last."""
    ticks: int = 0
    """The number of backticks of the code span that is open in this line."""
    head: str = ""
    """The beginning of this line."""
    tail: str = "\n"
    """The last characters of the text."""


class Quotation:
    """The quotation state at the end of an answer's text."""

    __slots__ = ("_pending", "_size", "_state")

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._size = 0
        self._state = _State()

    def add(self, text: str) -> None:
        """Add the next piece of the text."""
        self._pending.append(text)
        self._size += len(text)
        if self._size > _MOST:
            self._shrink()

    def save(self) -> _State:
        """Return the state from which `restore` can return to this position."""
        return self._settle()

    def restore(self, state: _State) -> None:
        """Return to a saved position, as if nothing had been added since."""
        self._pending, self._size = [], 0
        self._state = state

    # ── Asking ──────────────────────────────────────────────────────────────────────

    @property
    def tail(self) -> str:
        """The last characters of the text; a line end if it is empty."""
        return self._settle().tail

    @property
    def begins_line(self) -> bool:
        """True if only white space precedes this position on its line."""
        return not self._settle().head.strip()

    @property
    def follows_words(self) -> bool:
        """True if the line is plain prose so far: not a list, comment, heading or footnote."""
        head = self._settle().head.lstrip()
        return head[:1].isalpha()

    @property
    def begins_code(self) -> bool:
        """True if an indented code block begins here, after a blank line."""
        return _INDENTED.search(self._settle().tail) is not None

    def holds(self, *, new_line: bool = False) -> bool:
        """Return True if what follows is quoted. `new_line`: it begins with a line end."""
        state = self._settle()
        fence = _end_line(state).fence if new_line else state.fence
        if fence or state.closer or state.marks:
            return True
        if new_line:
            return False
        cited = ">" in _prefix_of(state.head) or _COMMENT.match(state.head) is not None
        return cited or bool(state.ticks) or _MARKED.search(state.tail) is not None

    # ── Reading ─────────────────────────────────────────────────────────────────────

    def _settle(self) -> _State:
        if self._pending:
            self._read("".join(self._pending))
            self._pending, self._size = [], 0
        return self._state

    def _shrink(self) -> None:
        """Read the collected text up to a point that cuts no mark in two: its last line end or, in
        a very long line, its last blank."""
        text = "".join(self._pending)
        end = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
        self._read(text[:end])
        self._pending, self._size = [text[end:]], len(text) - end

    def _read(self, text: str) -> None:
        tail = (self._state.tail + text[-_TAIL:])[-_TAIL:]
        first, *others = text.split("\n")
        state = _read_line(self._state, first)
        for line in others:
            state = _read_line(_end_line(state), line)
        self._state = state._replace(tail=tail)


def _prefix_of(line: str) -> str:
    found = _LINE_PREFIX.match(line)
    return found.group() if found else ""


def _end_line(state: _State) -> _State:
    line = state.head.strip()
    fence = state.fence
    if line in _QUOTE_LINES and fence in ("", line):
        fence = "" if fence else line
    return state._replace(fence=fence, ticks=0, head="", marks=state.marks if line else ())


def _read_line(state: _State, piece: str) -> _State:
    """Read the next piece of a line."""
    before = state.head
    state = state._replace(head=before + piece[: max(_HEAD - len(before), 0)])
    if not state.closer and _prefix_of(before) == before:
        line = before + piece
        found = _FENCE.match(line)
        if found is not None:
            return _read_fence(state, found["fence"], alone=not line[found.end() :].strip())
    return state if state.fence else _read_tokens(state, piece, before=before)


def _read_fence(state: _State, mark: str, *, alone: bool) -> _State:
    if not state.fence:
        return state._replace(fence=mark, marks=())
    return state._replace(fence="") if alone and mark.startswith(state.fence) else state


def _read_tokens(state: _State, piece: str, *, before: str) -> _State:
    """Read the next piece of a line that begins with `before` and is not a fence."""
    at = 0
    while True:
        if state.closer:
            closer = _closer(state.closer).search(piece, at)
            if closer is None:
                return state
            at = closer.end()
            state = state._replace(closer="")
        found = _TOKEN.search(piece, at)
        if found is None:
            return state
        at = found.end()
        if not found["tag"] or _begins_block(before + piece[: min(found.start(), _HEAD)]):
            state = _read_token(state, found)


def _begins_block(before: str) -> bool:
    return len(before) < _HEAD and _BEFORE_TAGS.match(before) is not None


@lru_cache(maxsize=64)
def _closer(literal: str) -> re.Pattern[str]:
    return re.compile(re.escape(literal), re.IGNORECASE)


def _read_token(state: _State, found: re.Match[str]) -> _State:
    text = found.group()
    if found["ticks"]:
        return state._replace(ticks=_toggle(state.ticks, len(text)))
    if state.ticks:
        return state  # a mark in a code span is only mentioned
    if found["mark"]:
        return state._replace(marks=_read_mark(state.marks, text))
    return state._replace(
        closer=_BLOCKS[found.lastgroup or ""].format(found[found.lastgroup or ""])
    )


def _toggle(opened: int, length: int) -> int:
    """Return the length of the open run of backticks. Another run of the same length closes the
    code span."""
    if not opened:
        return length
    return 0 if length == opened else opened


def _read_mark(marks: tuple[str, ...], mark: str) -> tuple[str, ...]:
    if marks and mark in marks[-1]:
        return marks[:-1]
    opens = mark in _CLOSERS and len(marks) < _DEEPEST
    return (*marks, _CLOSERS[mark]) if opens else marks
