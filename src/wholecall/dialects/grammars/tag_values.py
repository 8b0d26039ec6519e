"""Opening tags, and where a raw value between tags ends."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from wholecall.dialects.char_stream import CharStream, Markers, Sink, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import Shape, Trim
from wholecall.dialects.parser_context import LONGEST_NAME, plausible

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


# Opening tags: their form, and the name in one.


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
    between: tuple[str, ...] = ()
    """The ends of an element that may stand before it: `<arg_type>`, `</arg_type>`. The schema
    says the same, so it is read over."""
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
class TagHead:
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
) -> TagHead | None:
    """Parse the text of a tag; None if it holds no name.

    `remains` is what the tokenizer left between the tag and its attributes.
    """
    if not tag.attribute:
        name = text.strip().strip(_AROUND_NAME)
        name = name if "<" in name else name.removesuffix(">")  # `search>{…}` (GLM)
        return TagHead(name, unopened=unopened) if _is_name(name, tag) else None
    attributes = read_attributes(text, remains, escapes=tag.escapes)
    if tag.attribute not in attributes:
        return None
    return TagHead(attributes[tag.attribute], attributes, text.rstrip().endswith("/"))


def _is_name(text: str, tag: Tag) -> bool:
    """Return True if this may be a name. If another tag ends it, it may hold brackets."""
    brackets = tag.begin if tag.end[0].startswith("</") else "<"
    return "\n" not in text and brackets not in text


@dataclass(frozen=True, slots=True)
class TagMarkup:
    """The tags of calls and of their values."""

    call: Tag
    call_close: tuple[str, ...]
    value: Tag
    value_close: tuple[str, ...]
    sections: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    trim: Trim = Trim.NEWLINE
    untyped: Shape = Shape.TEXT
    """The shape of a value without a schema."""
    type_attribute: str = ""
    """`string="true"` (DeepSeek), `type="number"` (Kimi)."""
    cdata: bool = False
    comments: bool = False
    """`<!-- … -->` may stand between parameters: prompts show it there, and models copy it."""
    stops: bool = False
    """A model may stop where it would close the call. That the call is whole is then shown by
    its parameters: the last one is closed, and the tool has no other. That is a guess, and
    nothing is guessed at the output limit."""
    glued: tuple[str, ...] = ()
    """Text that the tokenizer left between a tag's name and its attribute."""
    tokens: bool = False
    """The tags are tokens of the model. It does not forget one, but servers drop them, and then
    words of the tag stay in the value: it ends with its own closing tag or not at all."""
    escaped_blanks: bool = False
    """Line ends between tags may be written as `\\n`, as inside of a JSON string."""
    stray: tuple[str, ...] = ()
    """Words that stand alone in the line before a call: remains of a token that was lost."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The beginnings of a call outside a section."""
        return (self.call.begin, *(f"\n{word}\n{self.call.begin}" for word in self.stray))

    def begins_call(self, opener: str) -> bool:
        """Return True if this opens a call, not a section. The preceding line end may be
        missing."""
        return opener in self.openers or f"\n{opener}" in self.openers

    @property
    def value_ends(self) -> tuple[str, ...]:
        """Text that would end a value, or seem to, inside it."""
        return (*self.value_close, *self.call_close, *self.section_close, self.value.begin)

    @property
    def closing_tags(self) -> tuple[str, ...]:
        """The closing tags of a value or its key."""
        return (*self.value_close, *(end for end in self.value.end if end.startswith("</")))

    @property
    def opening_end(self) -> str:
        """The end of a value's opening tag."""
        return ">" if self.value.then else self.value.end[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """The markers of a call, which a name never contains."""
        tags = (*self.call.end, *self.value_ends, self.call.begin, self.value.then)
        return tuple(tag for tag in tags if tag.startswith("<"))


# The beginning and end of a raw value: signs that it holds tags of its call.


LONGEST_TAG = 64
_CLOSING = re.compile(r"<\s*[/\\]\s*([^<>]+)>?\Z")
_OPENING = re.compile(r"\s*+(?:<([^\s<>=/!]+)|([^\s<>=/!]+)>)")
_OPEN_NAME = re.compile(r"\s*+<?[^\s<>=/!]*+")
_CDATA = re.compile(r"\s*+<!\W*+CDATA")
_QUOTES = frozenset("\"'` ")
"""Characters on both sides of a tag that a text only mentions."""
_USUAL = ("parameter", "param", "argument", "arg", "value")
"""Closing tags of values in other formats."""
_SHORTEST = 4
"""Letters of a part of a name that tell which one is meant."""
_SAME = 0.8
"""Similarity, of 1, at which names count as the same one misspelt."""


class ValueEnding:
    """Hands a value on, and remembers how it ends."""

    __slots__ = ("_closed", "_put", "first", "inside", "is_another", "last", "nested", "quoted")

    def __init__(self, put: Callable[[str], None], *, closed: bool = False) -> None:
        """`closed`: nothing but its closing tag can end it."""
        self._put = put
        self._closed = closed
        self.first = self.last = ""
        """Its beginning and its end."""
        self.inside = 0
        """The number of open tags without a name in it."""
        self.is_another = False
        """True if one of them looks like the beginning of another parameter."""
        self.nested: list[str] = []
        """The beginnings of the calls and parameters in it that are still open."""
        self.quoted = 0
        """The number of opening tags in it that stand in quotes or between words."""

    def put(self, piece: str) -> None:
        """Take a piece of the raw value."""
        self.last = (self.last + piece)[-LONGEST_TAG:]
        if len(self.first) < LONGEST_TAG:
            self.first = (self.first + piece)[:LONGEST_TAG]
        self._put(piece)

    def tells_of_it(self, behind: str) -> bool:
        """Return True if the following tag is text, not markup of the call: in quotes, or between
        words."""
        before = self.last[-1:]
        return before in _QUOTES and behind == before

    def enter(self, *, ends_line: bool, meant: bool = False) -> None:
        """A tag without a name follows. Alone in its line it is written as one of the call."""
        begins_line = self.last.rstrip(" \t")[-1:] in ("", "\n", "\r")
        alone = meant or (ends_line and begins_line)
        self.is_another = self.is_another or alone
        self.inside += 1

    def leave(self) -> None:
        """A closing tag follows that ends a tag in the value, or seems to."""
        self.inside = max(self.inside - 1, 0)
        self.quoted = max(self.quoted - 1, 0)
        self.is_another = self.is_another and self.inside > 0
        self._closed = True

    def is_torn(self, closers: tuple[str, ...]) -> bool:
        """Return True if it ends with a torn or misspelt closing tag, or held a whole one."""
        last = self.last.rstrip()
        if self._closed or any(_ends_torn(last, tag) for tag in closers):
            return True
        found = _CLOSING.search(last)
        name = _letters(found[1]) if found else ""
        return bool(name) and any(_is_meant(name, _letters(tag)) for tag in (*closers, *_USUAL))

    def repeats(self, closers: tuple[str, ...]) -> str:
        """Return the name of a closing tag at its end, if it is one of these with a typo: the right
        one follows."""
        last = self.last.rstrip()
        torn = next((tag[2:-1] for tag in closers if last.endswith(tag[1:])), "")
        found = _CLOSING.search(last)
        name = _letters(found[1]) if found else ""
        if found and any(tag.startswith(found[0]) and tag != found[0] for tag in closers):
            return found[0]  # one that was begun: no opening tag belongs to it
        slip = name and any(_is_slip(name, _letters(tag)) for tag in closers)
        return found[1].strip() if found and slip else torn


def repeats_opening(text: str, opening: str, *, end: str) -> bool:
    """Return True if a value begins with a repetition of the end of its opening tag."""
    part, found, _ = text.partition(end)
    part += found
    return bool(found) and len(part) >= _SHORTEST and opening.endswith(part)


def came_twice(text: str, closers: tuple[str, ...]) -> bool:
    """Return True if the same text is before and after a closing tag: a piece that was sent
    twice."""
    parts = (pairwise(map(str.strip, text.split(tag))) for tag in closers)
    return any(one and one == other for pairs in parts for one, other in pairs)


def is_torn_cdata(text: str) -> bool:
    """Return True if a text begins with a broken opening of a CDATA section."""
    return _CDATA.match(text) is not None


def begins_opening(text: str) -> bool:
    """Return True if a text may be the beginning of an opening tag whose name continues."""
    return _OPEN_NAME.fullmatch(text) is not None


def is_opening(text: str, tag: str) -> bool:
    """Return True if a text begins with an opening tag that is this one misspelt."""
    found = _OPENING.match(text)
    return found is not None and _is_meant(_letters(found[1] or found[2]), _letters(tag))


def _ends_torn(text: str, tag: str) -> bool:
    """Return True if a text ends with a closing tag that lacks its beginning or its end."""
    if text.endswith((tag[1:], tag[2:])):
        return True
    _, bracket, behind = text.rpartition("<")
    name, end, more = behind.partition(">")
    if bracket and not end:
        return bool(name.strip("/")) and tag.startswith(bracket + name)
    if bracket and not more:
        return False  # a whole tag
    return text.endswith(tuple(tag[at:] for at in range(len(tag) - _SHORTEST + 1)))


def _letters(tag: str) -> str:
    return "".join(filter(str.isalnum, tag)).casefold()


def _is_meant(name: str, own: str) -> bool:
    """Return True if a name equals another one, is part of it, contains it, or nearly so."""
    if min(len(name), len(own)) < _SHORTEST:
        return name == own
    if name in own or own in name:
        return True
    return difflib.SequenceMatcher(None, name, own).ratio() >= _SAME


def _is_slip(name: str, own: str) -> bool:
    """Return True if a name differs from another one by one missing or doubled letter."""
    if name == own:
        return True
    longer, shorter = sorted((name, own), key=len, reverse=True)
    left_out = {longer[:at] + longer[at + 1 :] for at in range(len(longer))}
    return len(own) > _SHORTEST and shorter in left_out and not name.startswith(own)


# Raw values between tags: where one ends.
#
# Anything may stand in a value, its closing tag too: that is a part of it unless what follows fits,
# or a parameter may be missing that it would close. Where the closing tag was left out, the next
# tag ends the value, if nothing shows that it holds a part of the markup: such a call would run
# with tags in its arguments.
#
#     <parameter=city>
#     Rome
#     </paramter>             ← meant as the end; the call is refused
#     <parameter=days>
#
#     <parameter=city>
#     Rome
#     </parameter>
#     <parameter>             ← the name was forgotten; the call is refused
#     3
#     </parameter>
#
#     <parameter=city>
#     Rome
#     </parameter>
#     3
#     </parameter>            ← closes what never began; refused, if the tool has another parameter
#
# An opening tag in a value is the next parameter, if the tool has that parameter and the call does
# not give it yet. Any other one is a part of the text, as long as all that is opened there is
# closed there, too. So is a call with parameters: a text that explains the format.
#
#     <parameter=text>
#     Write <parameter=x>1</parameter> for the first one.
#     </parameter>


COMMENT, COMMENT_END = "<!--", "-->"
BLANKS_IN_JSON = ("\\n", "\\t")
_LOOKED_OVER = {COMMENT: COMMENT_END, **{blank: blank for blank in BLANKS_IN_JSON}}
"""Text that may be between a value and the next mark, and its end."""
_SECTION = "section"
"""In place of a mark: the end of a section follows that a text holds."""
_MOST_COMMENTS = 1024
"""Characters of comments that are looked over to see what follows them."""


class RawValues:
    """Reads the values of one grammar."""

    def __init__(self, source: CharStream, grammar: TagMarkup, *, around: tuple[str, ...]) -> None:
        """`around` is the text that may be between the parameters of a call, and after them."""
        self._source = source
        self._grammar = grammar
        self._value_close = markers_of(grammar.value_close)
        self._unnamed = markers_of(grammar.value.unnamed)
        self._examples = (grammar.call.begin,)
        self._in_example = markers_of((grammar.value.begin, *grammar.call_close))
        between = BLANKS_IN_JSON if grammar.escaped_blanks else ()
        self._fits = markers_of(
            (grammar.value.begin, grammar.call.begin, *around, *between, *grammar.value_close)
        )
        self.left_open = False
        """True if the next parameter ended the last value, not its closing tag."""
        self.left_out = False
        """True if anything other than its closing tag did."""
        self.begin_call()
        after_call = grammar.section_close + grammar.sections
        self._after_call = markers_of((grammar.call.begin, *after_call, *grammar.call_close))

    def begin_call(self) -> None:
        """The values of another call follow."""
        self.forgets = False
        """True if the closing tag of one of them is missing."""
        self.holds_close = False
        """True if one of them holds a closing tag without an opening one."""
        self.holds_end = False
        """True if one of them holds the end of the call."""
        self.holds_example = False
        """True if one of them holds a whole call."""

    def read(self, put: Sink, head: TagHead, *, may_follow: Callable[[str], bool]) -> Steps[bool]:
        """The raw value up to its end; False if the text ends before, or it holds tags of its call.

        Models close a parameter with its own name, too: `<parameter name="text">…</text>`.
        `may_follow` says whether a parameter of this name may be the next one.
        """
        self._may_follow = may_follow
        own = f"</{head.name}>"
        grammar = self._grammar
        self.left_open = self.left_out = False
        marks = markers_of((*grammar.value_ends, own, *grammar.value.unnamed, *self._examples))
        ending = ValueEnding(put, closed=grammar.tokens)
        place = self._source.bookmark()
        whole = yield from self._read(marks, ending, own=own)
        text = self._source.since(place) if grammar.tokens or self.holds_close else ""
        name = ending.repeats(grammar.closing_tags) if whole and not self.left_open else ""
        torn = name and f"<{name}" not in self._source.since(place)
        self._source.forget()
        again = repeats_opening(ending.first, head.opening, end=grammar.opening_end)
        twice = again or came_twice(text, grammar.value_close)
        return whole and not torn and not twice and not self._holds_token(ending, text)

    def _holds_token(self, ending: ValueEnding, text: str) -> bool:
        """Return True if a value ends with the remains of a tag, or holds most of one: a token came
        twice, or was lost. `text` is the value with its closing tag."""
        if not self._grammar.tokens:
            return self._grammar.cdata and is_torn_cdata(ending.first)
        close = self._grammar.value_close[0]
        end, most = f"{close.partition('>')[0]}>", close.rpartition("<")[0]
        return ending.last.endswith(end) or text.count(most) > 1

    def _read(self, marks: Markers, ending: ValueEnding, *, own: str) -> Steps[bool]:
        while True:
            mark = yield from self._source.flow(marks, ending.put)
            if not mark:
                return False
            if (yield from self._is_nested(mark, ending)):
                pass
            elif mark in self._unnamed:
                yield from self._enter(ending)
            elif mark == own or mark in self._value_close:
                ended = yield from self._closes(mark, ending)
                if ended is not None:
                    return ended
            else:
                self._source.at -= len(mark)
                if (yield from self._ends(mark)):
                    return (yield from self._is_left_open(mark, ending))
                self._source.at += len(mark)
                self.holds_end = self.holds_end or mark in self._grammar.call_close
            ending.put(mark)

    def _is_left_open(self, mark: str, ending: ValueEnding) -> Steps[bool]:
        """Return True if a value is whole although another tag ends it: its own closing tag was
        left out. It may also stand before, or be torn, or come later."""
        torn = ending.is_torn(self._grammar.closing_tags)
        self.left_out = True
        self.left_open = mark == self._grammar.value.begin
        self.forgets = self.forgets or self.left_open
        return not torn and not (yield from self._closes_later(mark))

    # ── Tags that the text of a value holds ─────────────────────────────────────────

    def _is_nested(self, mark: str, ending: ValueEnding) -> Steps[bool]:
        """Return True if a mark is a part of the text: it opens a call or a parameter in it, or
        belongs to one that is open."""
        if mark in self._examples:
            if (yield from self._begins_example(mark)):
                ending.nested.append(mark)
                self.holds_example = True
            return True
        if ending.nested:
            yield from self._in_nested(mark, ending)
            return True
        return mark == self._grammar.value.begin and (yield from self._is_told(mark, ending))

    def _in_nested(self, mark: str, ending: ValueEnding) -> Steps[None]:
        """A mark inside of a call or a parameter that the text holds."""
        grammar, nested = self._grammar, ending.nested
        in_call = nested[-1] in self._examples
        in_example = any(each in self._examples for each in nested[-2:])
        if nested[-1] == _SECTION:
            nested.pop()
        elif mark == grammar.value.begin and (in_call or not in_example):
            nested.append(mark)
        elif in_call and mark in grammar.call_close:
            nested.pop()
            if (yield from self._source.sees_ahead(markers_of(grammar.section_close))):
                nested.append(_SECTION)
        elif (
            not in_call
            and mark in self._value_close
            and (not in_example or (yield from self.follows()) != "")
        ):
            nested.pop()
            ending.leave()

    def _begins_example(self, mark: str) -> Steps[bool]:
        """Return True if a call with parameters begins with a mark that was read."""
        tag = self._grammar.call
        place = self._source.bookmark() - len(mark)
        ends = markers_of((*tag.end, *tag.keeps))
        text, end = yield from self._source.header(ends, LONGEST_NAME)
        self._source.at -= len(end) if end in tag.keeps else 0
        head = head_of(tag, text, remains=self._grammar.glued) if end else None
        follows = yield from self._source.sees_ahead(self._in_example)
        self._source.rewind(place)
        self._source.at += len(mark)
        self._source.forget()
        return bool(head and follows and plausible(head.name))

    def _is_told(self, mark: str, ending: ValueEnding) -> Steps[bool]:
        """Return True if the opening tag of a parameter is a part of the text: the call cannot give
        such a parameter here."""
        self._source.at -= len(mark)
        word = yield from self.goes_on_as_word(mark)
        self._source.at += len(mark)
        place = self._source.bookmark() - len(mark)
        text, end = yield from self._source.header(
            markers_of(self._grammar.value.end), LONGEST_NAME
        )
        head = head_of(self._grammar.value, text, remains=self._grammar.glued) if end else None
        if self._grammar.value.then:
            yield from self._source.accept(markers_of((self._grammar.value.then,)))
        behind = yield from self._source.peek()
        self._source.rewind(place)
        self._source.at += len(mark)
        self._source.forget()
        if word or head is None or not head.name or self._may_follow(head.name):
            return False
        if ending.tells_of_it(behind):
            ending.quoted += 1
        else:
            ending.nested.append(mark)
        return True

    def _enter(self, ending: ValueEnding) -> Steps[None]:
        """A tag of a parameter without its name: text of the value, or the next parameter."""
        behind = yield from self._source.peek()
        if ending.quoted:
            return  # the second part of a tag in quotes: `<arg_key>x</arg_key><arg_value>`
        meant = bool(self._grammar.value.then)
        ending.enter(ends_line=behind in ("\n", "\r"), meant=meant)

    def _closes(self, mark: str, ending: ValueEnding) -> Steps[bool | None]:
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
            told = ending.tells_of_it((yield from self._source.peek()))
            opened = ending.inside or ending.quoted or told
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
        found = yield from self._source.flow(
            markers_of((*self._grammar.value_close, begin)), ignore
        )
        self._source.rewind(place)
        self._source.forget()
        return found in self._value_close
