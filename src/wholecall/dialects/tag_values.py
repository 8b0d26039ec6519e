"""Raw values between tags: where one ends.

Anything may stand in a value, its closing tag too: that is a part of it unless what follows
fits, or a parameter may be missing that it would close. Where the closing tag was left out, the
next tag ends the value, if nothing shows that it holds a part of the markup: such a call would
run with tags in its arguments.

    <parameter=city>
    Rome
    </paramter>             ← meant as the end; the call is refused
    <parameter=days>

    <parameter=city>
    Rome
    </parameter>
    <parameter>             ← the name was forgotten; the call is refused
    3
    </parameter>

    <parameter=city>
    Rome
    </parameter>
    3
    </parameter>            ← closes what never began; refused, if the tool has another parameter
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wholecall.dialects.marks import Marks, marks_of
from wholecall.dialects.source import Sink, Source, Steps, ignore
from wholecall.dialects.tag_endings import (
    LONGEST_TAG,
    Ending,
    begins_opening,
    came_twice,
    is_opening,
    is_torn_cdata,
    repeats_opening,
)

if TYPE_CHECKING:
    from wholecall.dialects.tag_calls import TagCalls
    from wholecall.dialects.tag_heads import Head

COMMENT, COMMENT_END = "<!--", "-->"
BLANKS_IN_JSON = ("\\n", "\\t")
_LOOKED_OVER = {COMMENT: COMMENT_END, **{blank: blank for blank in BLANKS_IN_JSON}}
"""Text that may be between a value and the next mark, and its end."""
_MOST_COMMENTS = 1024
"""Characters of comments that are looked over to see what follows them."""


class RawValues:
    """Reads the values of one grammar."""

    def __init__(self, source: Source, grammar: TagCalls, *, around: tuple[str, ...]) -> None:
        """`around` is the text that may be between the parameters of a call, and after them."""
        self._source = source
        self._grammar = grammar
        self._value_close = marks_of(grammar.value_close)
        self._unnamed = marks_of(grammar.value.unnamed)
        between = BLANKS_IN_JSON if grammar.escaped_blanks else ()
        self._fits = marks_of(
            (grammar.value.begin, grammar.call.begin, *around, *between, *grammar.value_close)
        )
        self.left_open = False
        """True if the next parameter ended the last value, not its closing tag."""
        self.left_out = False
        """True if anything other than its closing tag did."""
        self.begin_call()
        after_call = grammar.section_close + grammar.sections
        self._after_call = marks_of((grammar.call.begin, *after_call, *grammar.call_close))

    def begin_call(self) -> None:
        """The values of another call follow."""
        self.forgets = False
        """True if the closing tag of one of them is missing."""
        self.holds_close = False
        """True if one of them holds a closing tag without an opening one."""
        self.holds_end = False
        """True if one of them holds the end of the call."""

    def read(self, put: Sink, head: Head) -> Steps[bool]:
        """The raw value up to its end; False if the text ends before, or it holds tags of its call.

        Models close a parameter with its own name, too: `<parameter name="text">…</text>`.
        """
        own = f"</{head.name}>"
        grammar = self._grammar
        self.left_open = self.left_out = False
        marks = marks_of((*grammar.value_ends, own, *grammar.value.unnamed))
        ending = Ending(put, closed=grammar.tokens)
        place = self._source.bookmark()
        whole = yield from self._read(marks, ending, own=own)
        text = self._source.since(place) if grammar.tokens or self.holds_close else ""
        name = ending.repeats(grammar.closing_tags) if whole and not self.left_open else ""
        torn = name and f"<{name}" not in self._source.since(place)
        self._source.forget()
        again = repeats_opening(ending.first, head.opening, end=grammar.opening_end)
        twice = again or came_twice(text, grammar.value_close)
        return whole and not torn and not twice and not self._holds_token(ending, text)

    def _holds_token(self, ending: Ending, text: str) -> bool:
        """Return True if a value ends with the remains of a tag, or holds most of one: a token came
        twice, or was lost. `text` is the value with its closing tag."""
        if not self._grammar.tokens:
            return self._grammar.cdata and is_torn_cdata(ending.first)
        close = self._grammar.value_close[0]
        end, most = f"{close.partition('>')[0]}>", close.rpartition("<")[0]
        return ending.last.endswith(end) or text.count(most) > 1

    def _read(self, marks: Marks, ending: Ending, *, own: str) -> Steps[bool]:
        grammar = self._grammar
        while True:
            mark = yield from self._source.flow(marks, ending.put)
            if not mark:
                return False
            if mark in self._unnamed:
                yield from self._enter(ending)
            elif mark == own or mark in self._value_close:
                ended = yield from self._closes(mark, ending)
                if ended is not None:
                    return ended
            else:
                self._source.at -= len(mark)
                if (yield from self._ends(mark)):
                    # Its end was left out, or it stood before, or it is torn, or it comes later.
                    torn = ending.is_torn(grammar.closing_tags)
                    self.left_out = True
                    self.left_open = mark == grammar.value.begin
                    self.forgets = self.forgets or self.left_open
                    return not torn and not (yield from self._closes_later(mark))
                self._source.at += len(mark)
                self.holds_end = self.holds_end or mark in grammar.call_close
            ending.put(mark)

    def _enter(self, ending: Ending) -> Steps[None]:
        """A tag of a parameter without its name: text of the value, or the next parameter."""
        behind = yield from self._source.peek()
        meant = bool(self._grammar.value.then)
        ending.enter(ends_line=behind in ("\n", "\r"), meant=meant)

    def _closes(self, mark: str, ending: Ending) -> Steps[bool | None]:
        """Return True if the value is whole at a closing tag; None if it continues."""
        follows = yield from self.follows()
        right = mark in self._value_close
        inside = ending.inside and right
        # A tag that was opened in the value is closed first.
        if self._ends_at(mark, follows) and not (inside and follows in self._value_close):
            return not ending.is_another
        if right and not inside and (yield from self._begins_another()):
            return False
        if right:
            opened = ending.inside or ending.tells_of_it((yield from self._source.peek()))
            self.holds_close = self.holds_close or not opened
            ending.leave()
        return None

    def _begins_another(self) -> Steps[bool]:
        """Return True if a parameter begins here without its name, or with a misspelt tag."""
        if (yield from self._source.sees_ahead(self._unnamed)):
            return True
        return (yield from self.is_misspelt(self._grammar.value.begin))

    def is_misspelt(self, tag: str) -> Steps[bool]:
        """Return True if an opening tag here is meant to be this one."""
        ahead, count = "", 0
        while len(ahead) == count < LONGEST_TAG and begins_opening(ahead):
            count += 1
            ahead = yield from self._source.peek(count)
        return is_opening(ahead, tag)

    def _ends_at(self, mark: str, follows: str | None) -> bool:
        """Return True if a closing tag ends the value. A wrong one does not, if the right one
        follows."""
        if mark in self._value_close:
            return follows != ""
        return bool(follows) and follows not in self._value_close

    def follows(self) -> Steps[str | None]:
        """Return the mark after a closing tag, skipping comments; nothing if it is text."""
        past = 0
        while True:
            mark = yield from self._source.sees_ahead(self._fits, past)
            end = _LOOKED_OVER.get(mark or "")
            if end is None:
                return mark
            past = yield from self._source.ends_ahead(end, _MOST_COMMENTS, past=past)
            if not past:
                return ""

    def _ends(self, mark: str) -> Steps[bool]:
        """Return True if a mark here ends a value whose own closing tag is missing.

        The text after the mark must show it: at the end of the text, it may be cut inside a value
        that holds the mark.
        """
        if mark == self._grammar.value.begin:
            return not (yield from self.goes_on_as_word(mark))
        follows = yield from self._source.sees_ahead(self._after_call, len(mark))
        return bool(follows)

    def goes_on_as_word(self, mark: str) -> Steps[bool]:
        """Return True if this is the beginning of another tag: `<parameter` is not `<param`.

        Tokenizers lose the blank before the attribute, though: `<paramname="query">`.
        """
        attribute = self._grammar.value.attribute
        if not attribute or not mark[-1].isalnum():
            return False
        behind = (yield from self._source.peek(len(mark) + len(attribute)))[len(mark) :]
        return behind != attribute and behind[:1].isascii() and behind[:1].isalnum()

    def _closes_later(self, mark: str) -> Steps[bool]:
        """Return True if the end of the value follows the end of its call, before another
        begins."""
        begin = self._grammar.value.begin
        if mark == begin:
            return False
        place = self._source.bookmark()
        found = yield from self._source.flow(marks_of((*self._grammar.value_close, begin)), ignore)
        self._source.rewind(place)
        self._source.forget()
        return found in self._value_close
