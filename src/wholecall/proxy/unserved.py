"""404, 405 and 500 bodies in the client protocol's error format."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wholecall.files.database import CODE, StoreFailed
from wholecall.proxy.edge import BUG, CALLER, Caller
from wholecall.proxy.refusing import Refused, encode_refusal

_LOG = logging.getLogger(__name__)
_UNAVAILABLE = 503
_PAGE = "/inspector"
_VERSION = "/v1"
_WITHOUT_VERSION = ("/chat/completions", "/responses", "/models")
_CODES = {404: "not_found", 405: "method_not_allowed"}


async def _tell(request: Request, error: Exception) -> Response:
    """The answer to an error that a route did not turn into one itself."""
    refused, headers = _read(request, error)
    caller: Caller = request.scope[CALLER]
    path = request.scope["path"]
    caller.refuse(refused)
    body = encode_refusal(path, refused, request_id=caller.request_id)
    return Response(
        body, status_code=refused.status, headers=headers, media_type="application/json"
    )


def _read(request: Request, error: Exception) -> tuple[Refused, Mapping[str, str] | None]:
    if isinstance(error, Refused):
        return error, None
    if isinstance(error, StoreFailed):
        _LOG.error("request %s: %s", request.scope[CALLER].request_id, error.why)
        return Refused(_UNAVAILABLE, str(error), code=CODE), None
    if not isinstance(error, HTTPException):
        return BUG, None
    message = f"{request.method} {request.url.path} is not served here: {error.detail}"
    message += _advise(request.url.path)
    code = _CODES.get(error.status_code, "invalid_request")
    return Refused(error.status_code, message, code=code), error.headers


def _advise(path: str) -> str:
    """Return what the client most likely meant: the page, or another base URL."""
    if path == "/":
        return f". The page to look at, where it is turned on, is {_PAGE}"
    if path.startswith(f"{_VERSION}{_VERSION}/"):
        return f". Leave {_VERSION} out of the base URL: Anthropic's clients add it themselves"
    if path.startswith(_WITHOUT_VERSION):
        return f". The base URL of OpenAI's clients ends with {_VERSION}"
    return ""


ERROR_HANDLERS: Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _tell,
    Refused: _tell,
    StoreFailed: _tell,
    # The server logs it: the caller of the handler raises the error again.
    Exception: _tell,
}
"""For `Starlette(exception_handlers=…)`, inside of an `Edge`."""
