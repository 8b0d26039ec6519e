"""Rows of the decoders' tests, each decoded in every form that a payload may have."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from wholecall.protocols.decoder import PayloadDecoder


class Row(NamedTuple):
    says: str
    chunks: Sequence[Any]
    deltas: Sequence[Any]


def as_text(payload: Any) -> str:
    return payload if isinstance(payload, str) else json.dumps(payload)


def as_bytes(payload: Any) -> bytes:
    return as_text(payload).encode()


def as_it_is(payload: Any) -> Any:
    return payload


FORMS: tuple[Callable[[Any], Any], ...] = (as_it_is, as_text, as_bytes)


def in_every_form(rows: Iterable[Row]) -> list[Any]:
    return [
        pytest.param(list(map(form, row.chunks)), row.deltas, id=f"{row.says} ({form.__name__})")
        for row in rows
        for form in FORMS
    ]


def decode(decoder: PayloadDecoder, chunks: Iterable[Any]) -> list[Any]:
    return [delta for chunk in chunks for delta in decoder.decode(chunk)]
