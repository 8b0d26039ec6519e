"""The lines of a block of YAML: their indentation, and texts that go over several of them."""

from __future__ import annotations

from wholecall.dialects.jsontext import escape
from wholecall.dialects.machine import Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import Sink, Steps, ignore

END = -1
"""The indentation of the closing tag: less than that of any line."""
_LINE_END = marks_of(("\n",))
_CHOMPS = frozenset({"", "-", "+"})


class UnreadableYaml(Exception):
    """The text is not in the supported subset of YAML."""


class Lines:
    """Goes from line to line."""

    __slots__ = ("_close", "_source", "indent")

    def __init__(self, machine: Machine, close: str) -> None:
        self._source = machine.source
        self._close = marks_of((close,))
        self.indent = END
        """The indentation of the line that is to be read next."""

    def next(self) -> Steps[None]:
        """Go to the next line that says something."""
        while True:
            begin = self._source.place
            first = yield from self._source.skip(" ")
            self.indent = self._source.place - begin
            if first == "#":
                yield from self._source.flow(_LINE_END, ignore)
            elif first and first in "\r\n":
                self._source.at += 1
            else:
                break
        if first == "\t":
            raise UnreadableYaml  # as in YAML: its width is unknown
        if not first or (yield from self._source.sees(self._close)):
            self.indent = END

    def end_line(self) -> Steps[None]:
        """Read the rest of a line after a scalar: a comment or the closing tag."""
        first = yield from self._source.skip(" \t")
        if first and first not in "\r\n#" and not (yield from self._source.sees(self._close)):
            raise UnreadableYaml
        yield from self.next()

    # ── Literal and folded blocks ───────────────────────────────────────────────────

    def block(self, outer: int, sink: Sink) -> Steps[None]:
        """`|` keeps the ends of lines, `>` makes blanks of them; `-` and `+` say what of the
        last ones is kept."""
        text, end = yield from self._source.header(_LINE_END, 16)
        style, chomp = text[:1], text[1:].partition("#")[0].strip()
        if not end or chomp not in _CHOMPS:
            raise UnreadableYaml
        sink('"')
        newlines, written = yield from _Block(self, sink, folds=style == ">").read(outer)
        if chomp == "+":
            sink("\\n" * newlines)
        elif written and not chomp:
            sink("\\n")
        sink('"')

    def begin(self, most: int | None) -> Steps[str]:
        """Read a line's blanks, at most so many; return the character that follows."""
        begin = self._source.place
        while True:
            ahead = yield from self._source.peek()
            self.indent = self._source.place - begin
            if ahead != " " or self.indent == most:
                return ahead
            self._source.at += 1

    def text(self, sink: Sink) -> Steps[bool]:
        """Hand on the rest of a line; whether it had an end."""

        def put(piece: str) -> None:
            sink(escape(piece))

        return bool((yield from self._source.flow(_LINE_END, put)))

    def closes(self) -> Steps[bool]:
        """Return True at the closing tag."""
        return bool((yield from self._source.sees(self._close)))

    def step(self) -> None:
        """Read over the end of an empty line."""
        self._source.at += 1


class _Block:
    """One text over several lines."""

    def __init__(self, lines: Lines, sink: Sink, *, folds: bool) -> None:
        self._lines = lines
        self._folds = folds
        self._sink = sink
        self._newlines = 0
        """Ends of lines that are not written yet."""
        self._written = False
        self._deeper = False
        """True if the last line was indented more than the block: such lines are not folded."""

    def read(self, outer: int) -> Steps[tuple[int, bool]]:
        """Up to a line that is indented less; how many newlines are left, and whether any text
        was written."""
        inner: int | None = None
        while True:
            first = yield from self._lines.begin(inner)
            if first == "\n":
                self._lines.step()
                self._newlines += 1
                continue
            if not first or (yield from self._is_over(outer, inner)):
                break
            inner = self._lines.indent if inner is None else inner
            self._join(first in " \t")
            if not (yield from self._lines.text(self._sink)):
                raise UnreadableYaml
            self._newlines, self._written = 1, True
        if not first or (yield from self._lines.closes()):
            self._lines.indent = END
        return self._newlines, self._written

    def _is_over(self, outer: int, inner: int | None) -> Steps[bool]:
        if self._lines.indent <= outer or (inner is not None and self._lines.indent < inner):
            return True
        return inner is None and (yield from self._lines.closes())

    def _join(self, deeper: bool) -> None:
        """Write the separator between two lines."""
        count = self._newlines
        if not self._folds or deeper or self._deeper or not self._written:
            self._sink("\\n" * count)
        else:
            self._sink("\\n" * (count - 1) if count > 1 else " ")
        self._deeper = deeper
