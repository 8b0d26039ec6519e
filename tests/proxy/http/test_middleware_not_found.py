"""Unknown paths, wrong methods and bugs, as clients are told of them."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from asgi_calls import Answered, ask, call, make_scope
from wholecall.proxy.config.schema import Config
from wholecall.proxy.http.middleware import ERROR_HANDLERS, ProxyMiddleware
from wholecall.proxy.http.refusals import HttpRefusal


async def fail(_: Request) -> Response:
    raise ZeroDivisionError("the password is 1234")


async def refuse(_: Request) -> Response:
    raise HTTPException(418, "a teapot")


ROUTES = [
    Route("/v1/messages", fail, methods=["POST"]),
    Route("/v1/responses", fail, methods=["POST"]),
    Route("/teapot", refuse),
]
EDGE = ProxyMiddleware(Starlette(routes=ROUTES, exception_handlers=dict(ERROR_HANDLERS)), Config())


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/responses", 405, "method_not_allowed"),
        ("GET", "/teapot", 418, "invalid_request"),
    ],
)
def test_openais_clients_read_their_own_errors(
    method: str, path: str, *, status: int, code: str
) -> None:
    answered = ask(EDGE, path, method=method)
    assert answered.status == status
    error = answered.json["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert f"{method} {path}" in error["message"]
    assert answered.json["request_id"] == answered.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/v1/messages", "invalid_request_error"),
        ("POST", "/v1/messages/nowhere", "not_found_error"),
    ],
)
def test_anthropics_clients_read_theirs(method: str, path: str, *, kind: str) -> None:
    answered = ask(EDGE, path, method=method)
    assert answered.json["error"]["type"] == kind
    assert answered.json["request_id"] == answered.headers["request-id"]


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/", ". The page to look at, where it is turned on, is /inspector"),
        ("/chat/completions", ". The base URL of this client ends with /v1"),
        ("/responses/resp_1", ". The base URL of this client ends with /v1"),
        ("/v1/v1/messages", ". Leave /v1 out of the base URL: this client adds it"),
    ],
)
def test_who_asks_at_a_wrong_place_is_told_a_better_one(path: str, advice: str) -> None:
    assert advice in ask(EDGE, path, method="POST").json["error"]["message"]


def test_what_is_not_served_is_told_to_those_who_look_after_the_proxy() -> None:
    told: list[HttpRefusal] = []
    edge = ProxyMiddleware(
        Starlette(routes=ROUTES, exception_handlers=dict(ERROR_HANDLERS)),
        Config(),
        on_refusal=told.append,
    )
    ask(edge, "/nowhere")
    ask(edge, "/v1/messages")
    with pytest.raises(ZeroDivisionError):
        ask(edge, "/v1/responses", method="POST")
    assert [(each.path, each.status, each.code) for each in told] == [
        ("/nowhere", 404, "not_found"),
        ("/v1/messages", 405, "method_not_allowed"),
        ("/v1/responses", 500, "internal_error"),
    ]


def test_a_wrong_method_is_told_the_right_one() -> None:
    assert ask(EDGE, "/v1/messages").headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/messages", "api_error"), ("/v1/responses", "server_error")]
)
def test_a_bug_is_told_without_its_words_and_raised_for_the_log(path: str, kind: str) -> None:
    answered = Answered()

    async def send(message: Message) -> None:
        answered.messages.append(message)

    async def app(scope: Any, receive: Any, _: Any) -> None:
        await EDGE(scope, receive, send)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(call(app, make_scope("POST", path)))
    assert (answered.status, answered.json["error"]["type"]) == (500, kind)
    assert b"1234" not in answered.body
