"""What a client says to the proxy alone."""

from __future__ import annotations

import msgspec
import pytest

from wholecall.errors import UnreadableRequest
from wholecall.proxy.handlers.request_plan import NO_OPTIONS, ProxyOptions, take_proxy_options

OTHERS = {"model": msgspec.Raw(b'"m"'), "top_p": msgspec.Raw(b"0.50")}

ROWS: dict[str, tuple[bytes, ProxyOptions]] = {
    "events are wanted": (b'{"events": true}', ProxyOptions(events=True)),
    "events are not wanted": (b'{"events": false}', NO_OPTIONS),
    "nothing in it": (b"{}", NO_OPTIONS),
    "null": (b"null", NO_OPTIONS),
}


@pytest.mark.parametrize(("said", "wanted"), ROWS.values(), ids=ROWS)
def test_wishes_are_taken_out_of_a_request(said: bytes, wanted: ProxyOptions) -> None:
    given = {**OTHERS, "wholecall": msgspec.Raw(said)}
    wishes, fields = take_proxy_options(given)
    assert wishes == wanted
    assert msgspec.json.encode(fields) == msgspec.json.encode(OTHERS)
    assert "wholecall" in given


def test_a_request_without_any_stays_what_it_is() -> None:
    assert take_proxy_options(OTHERS)[0] is NO_OPTIONS
    assert take_proxy_options(OTHERS)[1] is OTHERS


@pytest.mark.parametrize("said", [b"true", b'{"events": 1}', b'{"event": true}', b'"\xff"'])
def test_a_wish_that_is_none_names_its_field(said: bytes) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        take_proxy_options({"wholecall": msgspec.Raw(said)})
    assert caught.value.param == "wholecall"
