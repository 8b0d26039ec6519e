"""An answer of HTTP/1.1 as its bytes come in, without a connection.

llhttp finds the parts, by httptools, as it does for uvicorn. What it leaves open is decided here:

- where a body ends: by its length, by its last chunk, or, if it has neither, with the connection;
- what a closed connection means: the end of such a body, and a cut of any other;
- how large a head may be, and what else stands around a body; trailers are left out;
- that answers such as `100 Continue` come before the real one;
- whether the connection can be used again: only if nothing came behind the answer;
- in which codings a body may come, although none is asked for.
"""

from __future__ import annotations

import zlib

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from wholecall.upstreams.http1.base import NotHttp, RawHeaders, find_header, is_fit

MOST_HEAD_BYTES = 64 * 1024
"""Bytes of a status line and its headers, and of what stands between and behind the parts of a
body. The longest, with policies and cookies, have a tenth."""
INFLATED_BYTES = 1024 * 1024
"""Bytes that a compressed body becomes at a time: a few of them may stand for gigabytes."""
_INTERIM = range(100, 200)
_EITHER_FORM = 32 + zlib.MAX_WBITS
"""For zlib: the header says whether it is gzip or deflate."""
_NO_HEADER = -zlib.MAX_WBITS
_GZIP_BEGINS = 0x1F
_DEFLATE_BEGINS = 0x08
"""In the lower half of the first byte."""
_PACKED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_FOREIGN = frozenset({b"br", b"zstd", b"compress", b"x-compress"})
# What else stands there (`utf-8`, `none`) is no coding, and the body is as it is.
_SPENT = HttpResponseParser(object())
"""Stands where the parser of an answer was."""


class Incoming:
    """One answer, fed piece by piece. Its `on_…` methods are called by the parser."""

    def __init__(self) -> None:
        self.has_head = False
        """Whether the status and all headers have come."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.over = False
        """Whether the last byte has come."""
        self.reusable = False
        """Whether another request may follow on the connection; known when it is over."""
        self.begun = False
        """Whether any byte of the body has come."""
        self.untaken = 0
        """Bytes of the body that were not taken."""
        self._parser = _make_parser(self)
        self._empty_bytes = 0
        """How many came since the last that was of use: a head, or some of the body."""
        self._header_bytes = 0
        self._until_closed = False
        self._pieces: list[bytes] = []
        self._inflating: _Inflating | None = None
        self._coding = b""
        """In which the body came, if it cannot be read."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come yet."""
        return not self.has_head and not self._empty_bytes

    def feed(self, data: bytes) -> None:
        """Bytes came. `NotHttp`: they are no answer."""
        if self._parser is _SPENT or not data:
            self.reusable = self.reusable and not data  # nobody asked for more
            return
        self._empty_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as error:
            raise NotHttp("it switches to another protocol") from error
        except HttpParserCallbackError as error:
            raise error.__context__ or error from None  # a mistake of ours in one of the methods
        except HttpParserError as error:
            self.reusable = False
            if not self.over:
                raise NotHttp(str(error)) from error
        if self.over:
            self.let_go()
        if max(self._empty_bytes, self._header_bytes) > MOST_HEAD_BYTES:
            raise NotHttp(f"more than {MOST_HEAD_BYTES} bytes stand around its answer")

    def feed_end(self) -> ConnectionError | None:
        """The connection closed. What it says of the answer, if that was cut by it."""
        self.reusable = False
        if self.over:
            return None
        if self._until_closed:
            self.over = True
            self.let_go()
            return None
        where = "without an answer" if self.is_silent else "in the midst of an answer"
        return ConnectionResetError(f"it hung up {where}")

    def take(self) -> bytes:
        """What has come of the body since the last time, decoded."""
        if self._coding and self._pieces:
            coding = self._coding.decode("latin-1")
            raise NotHttp(f"its answer is encoded as {coding!r}, which nobody asked for")
        if self._inflating is not None:
            return self._take_inflated(self._inflating)
        return self._take_raw()

    def let_go(self) -> None:
        """Nothing more is read. The parser holds this object, which holds the parser."""
        self._parser = _SPENT

    def _take_raw(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.untaken = 0
        return data

    def _take_inflated(self, inflating: _Inflating) -> bytes:
        inflated = b""
        while not inflated and (inflating.waiting or self._pieces):
            if not inflating.waiting:
                inflating.waiting = self._take_raw()
            inflated = inflating.take()
        if not inflated and self.over and not inflating.complete:
            raise ConnectionResetError("it hung up in the midst of a compressed answer")
        return inflated

    def _find_coding(self) -> None:
        given = find_header(self.headers, b"content-encoding").lower()
        codings = {each.strip() for each in given.split(b",")} & (_PACKED | _FOREIGN)
        if given in _PACKED:
            self._inflating = _Inflating(given)
        elif codings:
            self._coding = b", ".join(sorted(codings))

    # ── Called by the parser ────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """An answer begins. None should behind the one that was asked for."""
        if self.over:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; behind the body a trailer, which nobody needs."""
        if self.has_head:
            return
        self._header_bytes += len(name) + len(value)
        if is_fit(value):
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        if self.over or self._header_bytes > MOST_HEAD_BYTES:
            return
        status = self._parser.get_status_code()
        if status in _INTERIM:
            self.headers.clear()
            return
        self.has_head = True
        self.status = status
        self._empty_bytes = 0
        self._until_closed = _ends_with_connection(self.headers)
        self._find_coding()

    def on_body(self, data: bytes) -> None:
        """Some bytes of the body."""
        if not self.over:
            self.begun = True
            self._empty_bytes = 0
            self._pieces.append(data)
            self.untaken += len(data)

    def on_message_complete(self) -> None:
        """It is over, unless it only came before the real one."""
        if self.has_head and not self.over:
            self.over = True
            self._empty_bytes = 0
            self.reusable = self._parser.should_keep_alive()


def _make_parser(incoming: Incoming) -> HttpResponseParser:
    parser = HttpResponseParser(incoming)
    # What servers of little care write, and what browsers and other clients read all the same.
    # It is dangerous where two readers of one connection may disagree on where an answer ends;
    # nobody reads it but us.
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def _ends_with_connection(headers: RawHeaders) -> bool:
    """Whether a body has neither a length nor a last chunk."""
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings:
        return not codings[-1].lower().endswith(b"chunked")
    return not any(name == b"content-length" for name, _ in headers)


class _Inflating:
    """A compressed body, inflated bit by bit."""

    def __init__(self, coding: bytes) -> None:
        self.waiting = b""
        """What came, and was not inflated yet."""
        self._coding = coding
        self._zlib: zlib._Decompress | None = None
        self._ended = False

    @property
    def complete(self) -> bool:
        return self._zlib is None or self._zlib.eof

    def take(self) -> bytes:
        """The next of what is waiting; there may be nothing in it."""
        if self._zlib is None:
            self._zlib = zlib.decompressobj(self._find_form())
        elif self._zlib.eof:
            # Behind a member of gzip may stand another; else what fills it up, and nothing more.
            self._ended = self._ended or self.waiting[0] != _GZIP_BEGINS
            if self._ended:
                self.waiting = b""
                return b""
            self._zlib = zlib.decompressobj(_EITHER_FORM)
        try:
            inflated = self._zlib.decompress(self.waiting, INFLATED_BYTES)
        except zlib.error as error:
            raise NotHttp(f"its compressed answer is damaged: {error}") from error
        self.waiting = self._zlib.unconsumed_tail or self._zlib.unused_data
        return inflated

    def _find_form(self) -> int:
        """Some servers that say `deflate` leave its header out."""
        first = self.waiting[0]
        bare = first & 0x0F != _DEFLATE_BEGINS and first != _GZIP_BEGINS
        return _NO_HEADER if bare and self._coding == b"deflate" else _EITHER_FORM
