import json
from types import MappingProxyType
from typing import Any

import pytest

from wholecall.protocols.response_base import comment, dump, frame, quote

HALF = "\ud83d"


@pytest.mark.parametrize(
    ("says", "text", "expected"),
    [
        ("text stays readable", "Grüße", '"Grüße"'.encode()),
        ("a newline cannot end a line of the stream", "a\r\nb", rb'"a\r\nb"'),
        ("half of a pair is no character", f"a{HALF}b", '"a\ufffdb"'.encode()),
        ("two halves are one", HALF + "\ude00", '"😀"'.encode()),
    ],
)
def test_quote(says: str, text: str, *, expected: bytes) -> None:
    assert quote(text) == expected, says


@pytest.mark.parametrize(
    "value",
    [{"a": [1, None, 2.5]}, {"big": 2**80}, {"deep": MappingProxyType({"a": 1})}],
)
def test_dump_writes_every_json_value_on_one_line(value: Any) -> None:
    written = dump(value)
    assert b"\n" not in written
    assert json.loads(written) == json.loads(json.dumps(value, default=dict))


def test_dump_joins_halves_and_replaces_lone_ones() -> None:
    value = {f"a{HALF}": [HALF + "\ude00", MappingProxyType({"b": HALF}), 2**80]}
    written = '{"a\ufffd":["😀",{"b":"\ufffd"},1208925819614629174706176]}'
    assert dump(value) == written.encode()


def test_dump_refuses_what_is_no_json() -> None:
    with pytest.raises(TypeError, match="object is no JSON value"):
        dump(object())


def test_frame() -> None:
    assert frame({"a": 1}) == b'data: {"a":1}\n\n'
    assert frame({"a": 1}, "ping") == b'event: ping\ndata: {"a":1}\n\n'


def test_comment() -> None:
    assert comment("wholecall", {"a": "b\nc"}) == b': wholecall {"a":"b\\nc"}\n\n'
