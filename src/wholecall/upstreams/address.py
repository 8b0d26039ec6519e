"""Addresses and headers that can be sent, and what to write where one cannot."""

from __future__ import annotations

import re

from yarl import URL

_EXAMPLE = "write it as in http://127.0.0.1:8000/v1"
_PORTS = range(1, 65536)
# What a parser lets through, and no name of a machine holds.
_NO_HOST = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")
# RFC 9110, chapter 5.6.2: a token.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Lone surrogates, which come from environment variables that are not UTF-8.
_HALF = re.compile(r"[\ud800-\udfff]")
# The sender of a body gives its length; given twice, the next request could begin anywhere.
_OF_THE_BODY = ("content-length", "transfer-encoding")


def parse_address(text: str) -> URL:
    """Parse an http:// or https:// address; raise `ValueError` with the reason if it is not one."""
    why = f"{text.rpartition('@')[2]!r} is no http:// or https:// address"  # without a password
    try:
        url = URL(text.strip())
        host, port = url.host or "", url.port
        (url.raw_host or "").encode("idna")  # as a resolver does; an empty label is invalid
    except ValueError as error:
        raise ValueError(f"{why} ({error}): {_EXAMPLE}") from None
    if url.scheme not in ("http", "https") or not host or _NO_HOST.search(host):
        raise ValueError(f"{why}: {_EXAMPLE}")
    if port not in _PORTS:
        raise ValueError(f"{why} (ports go from 1 to 65535): {_EXAMPLE}")
    return url


def check_header(name: str, value: str) -> None:
    """`ValueError` says why a header cannot be sent; its value, which may be a key, is not shown.

    What came with a line break, from a file or a variable, would only fail when it is sent.
    """
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name of a header: write it with letters, digits and '-' only"
        )
    if name.lower() in _OF_THE_BODY:
        raise ValueError(f"the header {name!r} is set by who sends the body: leave it out")
    if _HALF.search(value):
        raise ValueError(f"the key or value for the header {name!r} is no UTF-8: write it anew")
    if _CONTROL.search(value):
        raise ValueError(
            f"the key or value for the header {name!r} holds a control character: "
            "write it in one line"
        )
