"""The outermost layer, around a real application and on a real socket."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from asgi_calls import ask, call, make_scope
from proxy.middleware_app import LOCKED, ROUTES, make_edge, make_key, walk
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    KeysConfig,
    ListenConfig,
    ServerLimits,
)
from wholecall.proxy.http.api_keys import ANONYMOUS, STRANGER, KeyStore
from wholecall.proxy.http.client_request import CALLER
from wholecall.proxy.http.middleware import ProxyMiddleware
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.http.refusals import HttpRefusal

EVERYTHING = list(walk(ROUTES))
GUARDED = [
    # What does not exist is guarded, too: nobody can find out which paths there are.
    *((method, path) for method, path in EVERYTHING if path != "/health"),
    ("GET", "/nowhere"),
    ("POST", "/health/x"),
    ("GET", "/health/"),
    ("GET", "//health"),
    ("OPTIONS", "/v1/models"),
    ("DELETE", "/v1/chat/completions"),
]


# ── Every route ─────────────────────────────────────────────────────────────────────


def test_the_table_has_routes_of_all_kinds() -> None:
    assert len(EVERYTHING) > 15
    assert len(GUARDED) > len(EVERYTHING)


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_a_key_nothing_is_reached(method: str, path: str, *, keys: KeyStore) -> None:
    answered = ask(make_edge(LOCKED, keys=keys), path, method=method)
    assert answered.status == 401
    assert answered.headers["www-authenticate"] == "Bearer"
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_foreign_host_reaches_nothing(method: str, path: str) -> None:
    answered = ask(make_edge(Config()), path, method=method, headers={"host": "evil.example"})
    assert answered.status == 421
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_foreign_website_reaches_nothing(method: str, path: str) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answered = ask(make_edge(Config()), path, method=method, headers=headers)
    assert answered.status == 403
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), [*EVERYTHING, *GUARDED])
def test_headers_and_bodies_that_are_too_large_reach_nothing(method: str, path: str) -> None:
    edge = make_edge(Config())
    for headers, status in [
        ({"x-large": "x" * 40_000}, 431),
        ({f"x-{number}": "" for number in range(101)}, 431),
        ({"content-length": "99999999999"}, 413),
    ]:
        answered = ask(edge, path, method=method, headers=headers)
        assert answered.status == status
        assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_with_a_key_everything_is_reached(
    method: str, path: str, *, header: str, keys: KeyStore
) -> None:
    value = make_key(keys)["authorization"]
    value = value if header == "authorization" else value.removeprefix("Bearer ")
    answered = ask(make_edge(LOCKED, keys=keys), path, method=method, headers={header: value})
    assert answered.status == 200
    assert CALLER in answered.scope


def test_health_is_open_to_whoever_asks(keys: KeyStore) -> None:
    headers = {"host": "10.1.2.3", "origin": "https://evil.example"}
    answered = ask(make_edge(LOCKED, keys=keys), "/health", headers=headers)
    assert answered.status == 200
    assert answered.scope[CALLER].key is STRANGER


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/metrics", 200),
        ("/inspector/", 200),
        ("/inspector/events", 200),
        ("/ready", 401),
        ("/metricsx", 401),
        ("/v1/models", 401),
    ],
)
def test_pages_are_open_as_configured(path: str, status: int, *, keys: KeyStore) -> None:
    config = Config(keys=KeysConfig(required=True, open=("/metrics", "/inspector")))
    edge = make_edge(config, keys=keys)
    assert ask(edge, path).status == status
    assert ask(edge, path, headers={"host": "evil.example"}).status == 421
    # Whoever may look may not change anything.
    assert ask(edge, path, method="POST").status == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/inspector", 200),
        ("/inspector/page/app.js", 200),
        ("/inspector/", 401),
        ("/inspector/pages", 401),
        ("/inspector/page/../api/runs", 401),
        ("/inspector/api/runs", 401),
        ("/inspector/api/live", 401),
    ],
)
def test_the_inspectors_page_is_open_and_what_it_shows_is_not(
    path: str, status: int, *, keys: KeyStore
) -> None:
    async def answer_anything(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        await JSONResponse({})(scope, receive, send)

    edge = ProxyMiddleware(answer_anything, LOCKED, keys=keys)
    assert ask(edge, path).status == status


# ── Keys ────────────────────────────────────────────────────────────────────────────


def test_where_no_key_is_needed_any_is_ignored_that_is_not_ours(keys: KeyStore) -> None:
    for edge in (make_edge(Config()), make_edge(Config(), keys=keys)):
        for headers in ({}, {"authorization": "Bearer dummy"}, {"x-api-key": "sk-x"}):
            answered = ask(edge, "/v1/models", headers=headers)
            assert answered.scope[CALLER].key is ANONYMOUS


def test_a_key_of_ours_counts_even_where_none_is_needed(keys: KeyStore) -> None:
    good = make_key(keys)
    edge = make_edge(Config(), keys=keys)
    assert ask(edge, "/v1/models", headers=good).json["key"] == "ops"
    [entry] = keys.list()
    keys.revoke(entry.key.id)
    assert ask(edge, "/v1/models", headers=good).status == 401
    assert ask(make_edge(Config()), "/v1/models", headers=good).status == 200


def test_without_a_store_every_key_is_refused_where_one_is_needed() -> None:
    headers = {"authorization": "Bearer wc_abc"}
    assert ask(make_edge(LOCKED), "/v1/models", headers=headers).status == 401


def test_a_refusal_does_not_repeat_the_key(keys: KeyStore) -> None:
    headers = {"authorization": "Bearer wc_wrong"}
    answered = ask(make_edge(LOCKED, keys=keys), "/v1/models", headers=headers)
    assert b"wc_wrong" not in answered.body
    assert answered.json["error"]["code"] == "invalid_api_key"


def test_a_store_that_fails_closes_the_door(keys: KeyStore) -> None:
    headers = make_key(keys)
    edge = make_edge(LOCKED, keys=keys)
    keys.close()
    scope = make_scope("GET", "/v1/models", headers=headers)
    answered = asyncio.run(call(edge, scope))
    assert (answered.status, answered.json["error"]["code"]) == (503, "keys_failed")
    assert CALLER not in scope


# ── Answers ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "header"),
    [("/v1/chat/completions", "x-request-id"), ("/v1/messages", "request-id")],
)
def test_answers_and_refusals_have_the_id_of_their_request(
    path: str, header: str, *, keys: KeyStore
) -> None:
    edge = make_edge(Config())
    given = ask(edge, path, method="POST", headers={"x-request-id": "mine-1"})
    assert (given.headers[header], given.json["id"]) == ("mine-1", "mine-1")
    refused = ask(make_edge(LOCKED, keys=keys), path, method="POST")
    assert refused.headers[header] == refused.json["request_id"]
    assert refused.headers[header].startswith("req_")


def test_refusals_have_the_shape_of_the_clients_protocol(keys: KeyStore) -> None:
    edge = make_edge(LOCKED, keys=keys)
    assert "type" in ask(edge, "/v1/chat/completions", method="POST").json["error"]
    anthropic = ask(edge, "/v1/messages", method="POST").json
    assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "authentication_error")


def test_an_admitted_website_may_ask_and_call_and_read(keys: KeyStore) -> None:
    listen = ListenConfig(origins=("https://chat.example",))
    edge = make_edge(replace(LOCKED, listen=listen), keys=keys)
    asks = {
        "origin": "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    asked = ask(edge, "/v1/models", method="OPTIONS", headers=asks)
    assert asked.status == 204
    assert asked.headers["access-control-allow-headers"] == "authorization"
    assert CALLER not in asked.scope
    for headers, status in [({}, 401), (make_key(keys), 200)]:
        called = ask(edge, "/v1/models", headers={"origin": "https://chat.example", **headers})
        assert called.status == status
        assert called.headers["access-control-allow-origin"] == "https://chat.example"


# ── What is told of refusals ────────────────────────────────────────────────────────


def test_every_refusal_is_told_of_with_whose_it_was(keys: KeyStore) -> None:
    told: list[HttpRefusal] = []
    config = replace(LOCKED, limits=ServerLimits(body_bytes=5))
    edge = ProxyMiddleware(
        Starlette(routes=ROUTES),
        config,
        keys=keys,
        rate_limits=RateLimits(clock=lambda: 0.0),
        on_refusal=told.append,
    )
    headers = {**make_key(keys, rpm=2), "x-request-id": "mine"}
    [entry] = keys.list()
    ask(edge, "/v1/models")
    ask(edge, "/v1/models", headers={"host": "evil.example"})
    ask(edge, "/v1/messages", method="POST", headers=headers, pieces=[b"four", b"more"])
    ask(edge, "/nowhere", headers=headers)
    ask(edge, "/v1/models", headers=headers)
    assert [(each.status, each.code, each.key_id) for each in told] == [
        (401, "invalid_api_key", ""),
        (421, "invalid_host", ""),
        (413, "request_too_large", entry.key.id),
        (429, "rate_limit_exceeded", entry.key.id),
    ]
    assert [each.path for each in told] == [
        "/v1/models",
        "/v1/models",
        "/v1/messages",
        "/v1/models",
    ]
    assert told[-1].request_id == "mine"


# ── The application ─────────────────────────────────────────────────────────────────


def test_a_bug_is_told_to_the_client_without_its_words_and_raised_for_the_log() -> None:
    sent: list[Message] = []

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("the password is 1234")

    async def run() -> None:
        async def receive() -> Message:
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await ProxyMiddleware(fail, Config())(make_scope("POST", "/v1/messages"), receive, send)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["error"]["type"] == "api_error"
    assert "1234" not in str(body)


def test_other_settings_hold_from_the_next_request_on(keys: KeyStore) -> None:
    edge = make_edge(Config(), keys=keys)
    assert ask(edge, "/v1/models").status == 200
    edge.reload(LOCKED)
    assert ask(edge, "/v1/models").status == 401


def test_keys_that_become_needed_come_with_their_store(keys: KeyStore) -> None:
    edge = make_edge(Config())
    edge.reload(LOCKED, keys=keys)
    assert ask(edge, "/v1/models", headers=make_key(keys)).status == 200


def test_settings_that_would_open_the_door_are_not_taken_over(keys: KeyStore) -> None:
    edge = make_edge(replace(LOCKED, listen=ListenConfig(host="10.0.0.1", hosts=("*",))), keys=keys)
    with pytest.raises(ConfigError, match=r"keys\.required"):
        edge.reload(Config())
    assert ask(edge, "/v1/models").status == 401


def test_the_lifespan_reaches_the_application() -> None:
    reached = []

    async def app(scope: Scope, *_: object) -> None:
        reached.append(scope["type"])

    asyncio.run(call(ProxyMiddleware(app, LOCKED), {"type": "lifespan"}))
    assert reached == ["lifespan"]


SOCKET = {"type": "websocket", "path": "/v1/responses", "headers": [(b"host", b"localhost")]}


def test_a_websocket_that_is_refused_gets_an_http_response() -> None:
    scope = {**SOCKET, "headers": [(b"host", b"evil.example")]}
    start, body = asyncio.run(call(make_edge(Config()), scope)).messages
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 421)
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert body["type"] == "websocket.http.response.body"


def test_a_bug_closes_a_websocket() -> None:
    async def fail(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        raise ZeroDivisionError

    seen: list[Message] = []

    async def send(message: Message) -> None:
        seen.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    with pytest.raises(ZeroDivisionError):
        asyncio.run(ProxyMiddleware(fail, Config())({**SOCKET}, receive, send))
    accepted, closed = seen
    assert b"x-request-id" in dict(accepted["headers"])
    assert closed == {"type": "websocket.close", "code": 1011}
