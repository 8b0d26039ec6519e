"""LangChain's own tests of chat models, through the proxy: its clients for chat completions,
Responses and Anthropic, in front of each of these protocols.

The model obeys: it calls the tool that is demanded or mentioned, and keeps to a schema.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]
from langchain_tests.integration_tests import (  # type: ignore[import-not-found]
    ChatModelIntegrationTests,
)

from proxy_server import Offer, proxy_in_thread, upstream
from wholecall.events import Call, Ended, Event, Evidence, Opened, Released, Text, Usage
from wholecall.messages import Mode, Request, Role, ToolSpec
from wholecall.protocols.registry import client_side, decode_request, encode_answer, make_encoder
from wholecall.protocols.response_base import ResponseHead

PREFIXES = {"openai": "openai-chat", "responses": "openai-responses", "anthropic": "anthropic"}
PATHS = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic",
}
_QUOTED = re.compile(r"'([^']+)'")
_SAMPLES: dict[str, Any] = {"integer": 3, "number": 3, "boolean": True, "array": [], "null": None}

# The libraries and what they import warn about themselves.
pytestmark = pytest.mark.filterwarnings("ignore")


# ── The model ───────────────────────────────────────────────────────────────────────


def answer(request: Request) -> list[Event]:
    last = request.messages[-1]
    tool = _choose(request, last.text)
    if request.output is not None or " JSON" in last.text:
        schema: dict[str, Any] = {"properties": {"setup": {}, "punchline": {}}}
        schema |= request.output.schema if request.output is not None else {}
        said: list[Event] = [Text(json.dumps(_fill(schema, "Why?")))]
    elif tool is not None and (last.role is not Role.TOOL or request.choice.mode is Mode.REQUIRED):
        given = _fill(tool.parameters, last.text)
        call = Call(
            id="call_1",
            name=tool.name,
            arguments=given,
            raw=json.dumps(given),
            evidence=Evidence.CLOSED,
            number=0,
        )
        end = Ended("tool_calls", None, None, None)
        return [Opened(0, call.id, call.name), Released(call), Usage(5, 3), end]
    else:
        said = [Text("Hello"), Text(" there.")]
    return [*said, Usage(5, 3), Ended("stop", None, None, None)]


def _choose(request: Request, text: str) -> ToolSpec | None:
    names = set(request.choice.names or ())
    for tool in request.tools:
        mentioned = tool.name in text or tool.name.removeprefix("get_") in text.lower()
        if tool.name in names or (
            not names and (request.choice.mode is Mode.REQUIRED or mentioned)
        ):
            return tool
    return None


def _fill(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    quoted = _QUOTED.search(text)
    word = quoted[1] if quoted else "x"
    return {
        name: _SAMPLES.get(str(field.get("type", "string")), word)
        for name, field in schema.get("properties", {}).items()
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        protocol = next(name for path, name in PATHS.items() if self.path.endswith(path))
        request = decode_request(protocol, body)
        read_style = client_side(protocol).read_style
        echo = {} if read_style is None else read_style(body).echo
        head = ResponseHead(id="resp_1", model="m", created=1, rest=echo)
        events = answer(request)
        if request.stream:
            encoder = make_encoder(protocol, head)
            frames = [encoder.begin(), *map(encoder.encode, events), encoder.finish()]
            self._send(b"".join(frames), "text/event-stream")
        else:
            whole = encode_answer(protocol, events, head=head)
            self._send(json.dumps(whole).encode(), "application/json")

    def _send(self, content: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module", autouse=True)
def address() -> Iterator[None]:
    """A proxy in front of the model, in every protocol: `openai`, …"""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    behind = f"http://127.0.0.1:{server.server_address[1]}"
    models = {prefix: upstream(f"{prefix}/m", behind, api_key=None) for prefix in PREFIXES}
    try:
        with proxy_in_thread(Offer(models)) as url:
            _Standard.url = url
            yield
    finally:
        server.shutdown()


# ── LangChain's tests ───────────────────────────────────────────────────────────────


class _Standard(ChatModelIntegrationTests):  # type: ignore[misc]
    url = ""
    model_name = ""

    @property
    def supports_json_mode(self) -> bool:
        return self.chat_model_class is ChatOpenAI

    @property
    def chat_model_class(self) -> Any:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return self.openai_params | {"stream_usage": True}

    @property
    def openai_params(self) -> dict[str, Any]:
        return {"model": self.model_name, "base_url": f"{self.url}/v1", "api_key": "any"}


class _Responses(_Standard):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return self.openai_params | {"use_responses_api": True}


class _Anthropic(_Standard):
    @property
    def chat_model_class(self) -> Any:
        return ChatAnthropic

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": self.model_name, "base_url": self.url, "api_key": "any"}


for _client, _prefix in product((_Standard, _Responses, _Anthropic), PREFIXES):
    _title = f"Test{_client.__name__.strip('_')}On{_prefix.title()}"
    globals()[_title] = type(_title, (_client,), {"model_name": _prefix, "__module__": __name__})
