"""Normal forms of a text, in which the same call looks the same however a page spells it.

- `unescape` takes a text out of JSON, HTML or an address, and folds case and look-alike signs.
- `squeeze` drops white space and emphasis as well; `read_members` and `read_objects` find JSON in
  it.
- `decode` reads what a text holds in base64, base32, or as a list of numbers.
- `thin` leaves words only: letters and digits, and the blanks between words.

Each takes time in proportion to the text, whatever it holds: patterns start at the beginning of a
run and never backtrack.
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Callable

from wholecall.arguments.parse import join_halves

# Each pattern starts at the beginning of a run of backslashes, so that a long run is read once.
_CODE = re.compile(
    r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,5})\}|x([0-9a-fA-F]{2})"
    r"|(?P<octal>[01][0-7]{2}))"
)
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})++")
_ESCAPED = re.compile(r"(?<!\\)\\++([nrtNRT])")
_ESCAPE_ROUNDS = 3
"""Rounds of unescaping, for JSON in HTML in JSON, or the other way round."""
_LINE_PREFIX = re.compile(
    r"^[ \t]*+[A-Za-z]{0,4}\d++(?:\t|[ \t]*+[|:→])|^[ \t]*+(?:>[ \t]*+)++|^[ \t]*+(?://|#|\+)[ \t]",
    re.MULTILINE,
)
"""Line numbers, block quotes, comments and diff markers."""
_SOFT_BREAK = re.compile(r"=\r?\n")
"""A line end that a mailer inserts, in quoted-printable."""
_SHADOWS = re.compile(r"[\U000e0020-\U000e007e]")
"""Invisible twins of the ASCII characters; models read them."""
_INVISIBLE = re.compile(
    r"\x1b\[[0-9;?]*+[A-Za-z]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\\\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    r"\U000e0000-\U000e01ef\u3300-\u33ff\ufdf0-\ufdfc]"
)
"""Colours of a terminal, control and format characters, backslashes, and the signs for whole words
that would make a text many times as long."""
_DROPPED = "`>*|~_+="
_QUOTES = re.compile("['‘’“”„‟«»‹›「」『』〝〞〟]")  # noqa: RUF001 - that is the point
_MEMBER = re.compile(r"""(?="([^"]*)":("[^"]*"|\[[^\[\]{}]*\]|[^",{}\[\]]+))""")

_OBJECT = re.compile(r"\{[^{}]*+")


def _read_code(found: re.Match[str]) -> str:
    digits = found[found.lastindex or 0]
    return chr(int(digits, 8 if found["octal"] else 16))


def _unquote(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")


def _unescape_line_ends(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\t" if found[1] in "tT" else "\n", text)


def unescape(text: str) -> str:
    """Return the text as it was before it was put into JSON, HTML or an address, in any order, in
    lower case and in the usual form of each character."""
    text = _SOFT_BREAK.sub("", _LINE_PREFIX.sub("", text))
    for _ in range(_ESCAPE_ROUNDS):
        before, text = text, _PERCENT.sub(_unquote, _CODE.sub(_read_code, html.unescape(text)))
        if text == before:
            break
    text = _unescape_line_ends(text)
    if not text.isascii():
        text = join_halves(text)  # of an emoji that JSON escapes
        text = _SHADOWS.sub(lambda found: chr(ord(found[0]) - 0xE0000), text)
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    text = _LINE_PREFIX.sub("", _INVISIBLE.sub("", text))
    return _QUOTES.sub('"', text.casefold())


def pack(unescaped: str) -> str:
    """Return the text without what does not count in a comparison."""
    packed = "".join(unescaped.split())
    for sign in _DROPPED:
        packed = packed.replace(sign, "")
    return packed


def squeeze(text: str) -> str:
    """Return the text reduced to a form in which spelling does not count."""
    return pack(unescape(text))


def read_objects(squeezed: str) -> set[frozenset[str]]:
    """Return the members of each object in JSON, those of the objects in it apart."""
    return {frozenset(read_members(each)) for each in _OBJECT.findall(squeezed)}


def read_members(squeezed: str) -> set[str]:
    """Return the members whose values hold no object: `"city":"Oslo"`. A number may be a string."""
    return {f"{key}:{value.strip(chr(34))}" for key, value in _MEMBER.findall(squeezed)}


# ── Words ───────────────────────────────────────────────────────────────────────────

_GAP = re.compile(r"[\W_]++")
_SPELLED = re.compile(r"[\[({]\s?(?:at|dot)\s?[\])}]")
"""Signs of an address that are written as words."""
_LOOK_ALIKES = str.maketrans(
    "аеорсхуіјѕһԁԛԝґкмтвнαορυνικτᴀʙᴄᴅᴇғɢʜɪᴊᴋʟᴍɴᴏᴘǫʀᴛᴜᴠᴡʏᴢ",
    "aeopcxyijshdqwgkmtbhaopuviktabcdefghijklmnopqrtuvwyz",
)
_DIGITS_ALIKE = str.maketrans("013457", "oleast")
"""Letters of other alphabets, small capitals and digits that look like these."""
_TO_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


def thin(unescaped: str) -> str:
    """Return the words of a text that was unescaped. Signs and the blanks beside them are left out,
    so that `"a", "b"`, `a-b` and `a_b` are the one word `ab`, and `a b` is two."""
    if not unescaped.isascii():
        unescaped = unicodedata.normalize("NFKD", unescaped).translate(_LOOK_ALIKES)
    words = _SPELLED.sub("@", unescaped).translate(_DIGITS_ALIKE)
    return _GAP.sub(lambda found: " " if found[0].isspace() else "", words)


def reverse(text: str) -> str:
    """Return the text from its end to its beginning."""
    return text[::-1]


def rotate(text: str) -> str:
    """Return the text with each letter thirteen places further on."""
    return text.translate(_TO_ROT13)


# ── Codes ───────────────────────────────────────────────────────────────────────────

_CODE_ROUNDS = 3
"""Codes in codes that are read."""
_SHORTEST = 16
"""Characters of a word that may be a code."""
_LINE = r"[A-Za-z0-9+/_-]"
_LINE_END = r"(?=[ \t]*+(?:[\r\n\"'`]|\Z))"
_RUN = re.compile(
    rf"{_LINE}{{{_SHORTEST},}}+={{0,2}}+(?:\r?\n[ \t>]*+{_LINE}{{4,}}+={{0,2}}+{_LINE_END})*+"
)
"""One word of base64, base32 or hexadecimal digits, and the lines that continue it."""
_JOINT = re.compile(r"([\"'`])\s{0,8}\+\s{0,8}\1")
"""Where a program joins two texts."""
_SIGN_BEFORE = r"cha?r[(\]]|0[xX]|\\[xuU]?\{?|[uU]\+|&#[xX]?|[=%#]|(?<![0-9A-Za-z])"
_NUMBER = rf"(?:{_SIGN_BEFORE})[0-9A-Fa-f]{{1,8}}+(?![0-9A-Za-z])"
_NUMBERS = re.compile(rf"(?:{_NUMBER}[^0-9A-Za-z<>\\&%=#]{{0,4}}+){{8,}}+")
"""A list of numbers, with the signs of several languages before each of them."""
_DIGITS = re.compile(r"[0-9A-Fa-f]{1,8}(?![0-9A-Za-z])")
_BASES = {
    2: re.compile(r"[01]{7,8}\Z"),
    10: re.compile(r"[0-9]{2,3}\Z"),
    16: re.compile(r"[0-9A-Fa-f]+\Z"),
    8: re.compile(r"[0-7]+\Z"),
}
"""How numbers are written, in the order in which they are tried."""
_HEXADECIMAL = 16
_WHOLE_BYTES = frozenset({2, 4})
"""Digits of one byte, and of two. A dump begins with two; a shorter one may end it."""
_ASCII, _BYTES, _SURROGATES = 0x80, 0x100, 0xD800
_DUMP = re.compile(
    r"^[ \t]*+[0-9a-fA-F]{4,8}:?[ \t]++"
    r"((?:[0-9a-fA-F]{4}[ ]){1,8}+(?:[0-9a-fA-F]{2}[ ])?+|(?:[0-9a-fA-F]{2}[ ]{1,2}){1,16}+).*$",
    re.MULTILINE,
)
"""A line of a hex dump: an address, the bytes, and the characters."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}+")
"""Bytes that are written as selectors of a glyph's variant, which are invisible."""
_LAST_OF_16 = 0xFE0F
_UNREADABLE = re.compile(r"[^\t\n\r -~\u00a0-\ud7ff\uf900-\ufffc]")
_PROBE = 4096
"""The characters at the beginning that show whether a text was decoded rightly."""
_PROBED_NUMBERS = 256


def decode(text: str) -> str:
    """Return the text with everything in it decoded that is in base64, base32 or hexadecimal, or a
    list of numbers. What gives no readable text stays as it is."""
    for _ in range(_CODE_ROUNDS):
        plain = _unescape_line_ends(_PERCENT.sub(_unquote, html.unescape(text)))
        decoded = _SELECTORS.sub(_read_selectors, plain)
        decoded = _NUMBERS.sub(_read_numbers, _DUMP.sub(r"\1", decoded))
        decoded = _RUN.sub(_read_run, _JOINT.sub("", decoded))
        if decoded == plain:
            break
        text = decoded
    return text


def _is_readable(text: str) -> bool:
    probe = text[:_PROBE]
    return bool(probe) and len(_UNREADABLE.findall(probe)) * 10 <= len(probe)


def _as_text(given: bytes) -> str:
    """Return bytes as text: UTF-16, where so many of them are zero, or else UTF-8."""
    low, high = given[::2].count(0), given[1::2].count(0)
    if (low + high) * 3 < len(given):
        return given.decode(errors="replace")
    return given.decode("utf-16-le" if high > low else "utf-16-be", errors="replace")


def _read_selectors(found: re.Match[str]) -> str:
    codes = (ord(each) for each in found[0])
    values = (code - 0xFE00 if code <= _LAST_OF_16 else code - 0xE00F0 for code in codes)
    return bytes(values).decode(errors="replace")


def _read_run(found: re.Match[str]) -> str:
    lines = found[0].replace("=", "").replace(">", "").removeprefix("0x").split()
    word = "".join(lines)
    # The last line may be a word of prose.
    parts = ("".join(lines[:-1]), *lines, *word.split("/"))
    for part in dict.fromkeys((word, *(each for each in parts if len(each) >= _SHORTEST))):
        for read in _READERS:
            if _is_readable(read(part[:_PROBE])):
                return word.replace(part, f" {read(part)} ")
    return found[0]


def _read_hex(word: str) -> str:
    try:
        return _as_text(bytes.fromhex(word))
    except ValueError:
        return ""


def _read_base32(word: str) -> str:
    try:
        return _as_text(base64.b32decode(word + "=" * (-len(word) % 8)))
    except ValueError:
        return ""


def _read_base64(word: str) -> str:
    whole = word[: len(word) - (len(word) % 4 == 1)].translate(_TO_USUAL)
    return _as_text(base64.b64decode(whole + "=" * (-len(whole) % 4)))


_TO_USUAL = str.maketrans("-_", "+/")
_READERS: tuple[Callable[[str], str], ...] = (_read_hex, _read_base32, _read_base64)


def _read_numbers(found: re.Match[str]) -> str:
    digits = _DIGITS.findall(found[0])
    for base in _BASES:
        if _is_readable(_number_text(digits[:_PROBED_NUMBERS], base)):
            return f" {_number_text(digits, base)} "
    return found[0]


def _number_text(digits: list[str], base: int) -> str:
    """Return the text whose bytes or characters have these numbers, where nearly all of them are
    written in this base, and most of them are of ASCII."""
    written = [each for each in digits if _BASES[base].match(each)]
    if len(written) * 10 < len(digits) * 9:
        return ""
    lengths = [*map(len, written)]
    if base == _HEXADECIMAL and {*lengths} <= _WHOLE_BYTES and lengths[0] == max(lengths):
        return _as_text(bytes.fromhex("".join(written)))
    numbers = [number for each in written if (number := int(each, base)) < _SURROGATES]
    if sum(number < _ASCII for number in numbers) * 2 < len(digits):
        return ""
    is_bytes = max(numbers) < _BYTES
    return _as_text(bytes(numbers)) if is_bytes else "".join(map(chr, numbers))
