"""Recognise an answer that is not from an API: a captive portal, a web server's own page, an empty
body.

Such an answer has a good status, so only its body shows it. It is reported before it could be taken
for a stream that was cut.
"""

from __future__ import annotations

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKUP = b"<"
# The beginnings of JSON and events. Anything else of type plain text is prose.
_BEGINNINGS = (b"{", b"[", b":", b"data:", b"event:", b"id:", b"retry:")
_PROSE = "text/plain"


def find_stranger(status: int, media_type: str, *, start: bytes) -> str:
    """Describe an answer that is not from a model, if its first bytes show it."""
    said = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not said:
        return f"answered with status {status} and an empty body"
    if said.startswith(_MARKUP):
        return "answered with a web page instead of a model's answer; is its address right?"
    if media_type == _PROSE and not _may_begin(said):
        return "answered with plain text instead of a model's answer; is its address right?"
    return ""


def _may_begin(said: bytes) -> bool:
    return any(said.startswith(each) or each.startswith(said) for each in _BEGINNINGS)
