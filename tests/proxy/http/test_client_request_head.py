"""What the head of a request must be."""

import pytest

from asgi_calls import make_scope
from wholecall.proxy.config.schema import ListenConfig, ServerLimits
from wholecall.proxy.http.client_request import (
    Headers,
    RequestHead,
    approve_preflight,
    check_host,
    check_length,
    check_origin,
    check_size,
    choose_request_id,
    is_preflight,
    read_key,
)
from wholecall.proxy.http.refusals import RequestRefused

Given = list[tuple[str, str]]
LISTEN = ListenConfig(
    hosts=("models.example", "*.wide.example", "10.0.0.5", "[fd00::1]"),
    origins=("https://chat.example",),
)


def arrive(headers: Given, *, method: str = "POST") -> RequestHead:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return RequestHead(method, "/v1/models", headers=raw)


def test_the_head_is_read_from_the_scope() -> None:
    scope = make_scope("GET", "/path", headers={"x-a": "ä"})
    scope["query_string"] = b"a=b"
    head = RequestHead.of(scope)
    assert (head.method, head.path) == ("GET", "/path")
    assert head.find(b"x-a") == ["ä"]
    assert dict(Headers(head.by_name)) == {"host": "127.0.0.1:8787", "x-a": "ä"}
    assert head.size == len("host127.0.0.1:8787" + "x-aä" + "/path" + "a=b")


def test_headers_are_found_by_their_names() -> None:
    headers = Headers({b"x-a": b"1", b"x-b": "ü".encode("latin-1")})
    assert (headers["x-b"], headers.get("x-a"), headers.get("x-c")) == ("ü", "1", None)
    assert "x-a" in headers
    assert "x-c" not in headers
    assert len(headers) == 2


# ── Request ids ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", ["abc", "7f3c-11", "a.b:c_d", "x" * 128])
def test_a_plain_request_id_is_taken_over(given: str) -> None:
    assert choose_request_id(arrive([("x-request-id", given)])) == given


@pytest.mark.parametrize(
    "given", [[], [""], ["a b"], ["a\nb"], ["-a"], ["<script>"], ["x" * 129], ["ä"], ["a", "a"]]
)
def test_any_other_gets_one_of_ours(given: list[str]) -> None:
    head = arrive([("x-request-id", value) for value in given])
    ours = choose_request_id(head)
    assert ours.startswith("req_")
    assert ours != choose_request_id(head)


# ── Sizes ───────────────────────────────────────────────────────────────────────────


def test_headers_are_limited_in_number_and_size() -> None:
    limits = ServerLimits(header_count=10, header_bytes=1024)
    check_size(arrive([("a", "b")] * 10), limits)
    check_size(RequestHead("GET", "/", headers=[(b"a", b"b" * 1022)]), limits)
    too_large = RequestHead("GET", "/", headers=[(b"a", b"b" * 1023)])
    for bad in (arrive([("a", "b")] * 11), too_large):
        with pytest.raises(RequestRefused) as refused:
            check_size(bad, limits)
        assert refused.value.status == 431


@pytest.mark.parametrize("length", ["0", "100", "x", "-5", ""])
def test_a_length_that_may_be_good_is_let_through(length: str) -> None:
    check_length(arrive([("content-length", length)]), ServerLimits(body_bytes=100))
    check_length(arrive([]), ServerLimits(body_bytes=100))


@pytest.mark.parametrize("length", ["101", "9" * 5000])
def test_a_length_that_is_too_large_is_refused(length: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_length(arrive([("content-length", length)]), ServerLimits(body_bytes=100))
    assert refused.value.status == 413
    assert (b"connection", b"close") in refused.value.headers


# ── Host and Origin ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8787",
        "localhost:8787",
        "LocalHost",
        "[::1]:8787",
        "[::1]",
        "models.example",
        "MODELS.example.:443",
        "a.wide.example",
        "10.0.0.5:80",
        "[fd00::1]:80",
    ],
)
def test_our_names_are_served(host: str) -> None:
    check_host(arrive([("host", host)]), LISTEN)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "models.example.evil.example",
        "evil.example:8787",
        "wide.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "10.0.0.6",
        "",
        "*",
    ],
)
def test_other_names_are_not(host: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_host(arrive([("host", host)]), LISTEN)
    assert refused.value.status == 421


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_there_is_one_host(hosts: list[str]) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_host(arrive([("host", host) for host in hosts]), LISTEN)
    assert refused.value.status == 400


def test_a_star_serves_every_name() -> None:
    check_host(arrive([("host", "any.example")]), ListenConfig(hosts=("*",)))


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ([("host", "localhost:1")], None),
        ([("host", "localhost:1"), ("origin", "http://localhost:1")], None),
        ([("host", "models.example"), ("origin", "https://models.example")], None),
        ([("host", "localhost"), ("origin", "https://chat.example")], "https://chat.example"),
    ],
)
def test_programs_our_own_pages_and_admitted_websites_may_call(
    headers: Given, origin: str | None
) -> None:
    assert check_origin(arrive(headers), LISTEN) == origin


@pytest.mark.parametrize(
    "origins",
    [
        ["null"],
        [""],
        ["https://evil.example"],
        ["http://chat.example"],
        ["https://chat.example:444"],
        ["https://chat.example.evil.example"],
        ["http://localhost:2"],
        ["file://localhost:1"],
        ["https://chat.example", "https://chat.example"],
        ["http://localhost:1", "https://evil.example"],
    ],
)
def test_other_websites_may_not(origins: list[str]) -> None:
    headers = [("host", "localhost:1"), *(("origin", origin) for origin in origins)]
    with pytest.raises(RequestRefused) as refused:
        check_origin(arrive(headers), LISTEN)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("method", "headers", "origin", "asks"),
    [
        ("OPTIONS", [("access-control-request-method", "POST")], "https://chat.example", True),
        ("OPTIONS", [("access-control-request-method", "POST")], None, False),
        ("OPTIONS", [], "https://chat.example", False),
        ("POST", [("access-control-request-method", "POST")], "https://chat.example", False),
    ],
)
def test_a_browsers_question_is_recognised(
    method: str, headers: Given, *, origin: str | None, asks: bool
) -> None:
    assert is_preflight(arrive(headers, method=method), origin) is asks


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (["authorization, x-stainless-os"], b"authorization, x-stainless-os"),
        ([], b""),
        (["a\r\nset-cookie: b"], b""),
        (["a" * 2001], b""),
    ],
)
def test_a_page_may_send_whatever_headers_have_plain_names(
    wanted: list[str], allowed: bytes
) -> None:
    head = arrive([("access-control-request-headers", value) for value in wanted])
    assert dict(approve_preflight(head))[b"access-control-allow-headers"] == allowed


# ── Keys ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([], None),
        ([("authorization", "Bearer wc_a")], "wc_a"),
        ([("authorization", "bearer  wc_a ")], "wc_a"),
        ([("x-api-key", "wc_a")], "wc_a"),
        ([("x-api-key", "wc_a"), ("authorization", "Bearer wc_a")], "wc_a"),
        ([("x-api-key", "wc_a"), ("authorization", "Bearer dummy")], "wc_a"),
        ([("authorization", "Basic wc_a")], None),
        ([("authorization", "wc_a")], None),
        ([("x-api-key", "sk-other")], None),
        ([("api-key", "wc_a")], None),
    ],
)
def test_a_key_is_found_in_either_header(headers: Given, key: str | None) -> None:
    assert read_key(arrive(headers)) == key


@pytest.mark.parametrize(
    "headers",
    [
        [("x-api-key", "wc_a"), ("authorization", "Bearer wc_b")],
        [("x-api-key", "wc_a"), ("x-api-key", "wc_b")],
    ],
)
def test_two_keys_are_none(headers: Given) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_key(arrive(headers))
    assert refused.value.status == 401
    assert "wc_" not in refused.value.message
