"""A program that stands in for the process of a model: it speaks the same, and fails as told.

Its first argument says how it behaves, its second names a file that counts its starts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
order: dict[str, Any] = {}
PROPERTIES = {
    "toolless": '{"chat_template_caps": {"supports_tools": false}, "model_path": "x"}',
    "tooled": '{"chat_template_caps": {"supports_tools": true}}',
    "odd": "no JSON",
}


def say(text: str) -> str:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(chunk)}\n\n"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """What its template can do; the path of the model says what that is."""
        name = Path(order["path"]).stem
        if name not in PROPERTIES:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PROPERTIES[name].encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {order['key']}":
            self.send_error(401)
            return
        asked = body["messages"][-1]["content"]
        if asked == "refuse":
            self.send_error(400)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.write(say(asked))
        if asked == "die":
            os._exit(7)
        self.write(FINISH)

    def write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(json.dumps({"address": f"http://127.0.0.1:{server.server_port}"}) + "\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()


def tell_a_dead_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    sys.stdout.write(json.dumps({"address": f"http://127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()


def end_with_parent() -> NoReturn:
    sys.stdin.read()
    os._exit(0)


def complain(*lines: str, code: int = 1) -> NoReturn:
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
    os._exit(code)


def serve_until_told() -> None:
    serve()
    end_with_parent()


def serve_for_ever() -> None:
    serve()
    signal.pause()


def serve_nobody() -> None:
    tell_a_dead_address()
    end_with_parent()


def leave_somebody_behind() -> None:
    """Serve, and die; a child goes on to hold the error output until a file appears."""
    release = Path(sys.argv[2]).with_name("release")
    if os.fork() == 0:
        for _ in range(6000):  # a minute, whatever becomes of the test
            if not release.exists():
                signal.sigtimedwait([], 0.01)
        os._exit(0)
    tell_a_dead_address()
    os._exit(7)


def die_the_first_time() -> None:
    if len(Path(sys.argv[2]).read_text().splitlines()) == 1:
        tell_a_dead_address()
        os._exit(7)
    serve_until_told()


BEHAVIOURS: dict[str, Callable[[], object]] = {
    "serves": serve_until_told,
    "is deaf": serve_for_ever,
    "serves nobody": serve_nobody,
    "dies the first time": die_the_first_time,
    "leaves somebody behind": leave_somebody_behind,
    "hangs": signal.pause,
    "fails": lambda: complain("0.1 I srv: loading", "0.2 E cmn: bad tensor", "0.3 E srv: exiting"),
    "fails in other words": lambda: complain("Traceback …", "RuntimeError: no", ""),
    "fails silently": lambda: os._exit(3),
    "lacks instructions": lambda: os.kill(os.getpid(), signal.SIGILL),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def main() -> None:
    behaviour, counter = sys.argv[1:]
    with Path(counter).open("a") as file:
        file.write("started\n")
    if behaviour == "lacks its package":
        complain("Traceback …", "ModuleNotFoundError: No module named 'xllamacpp'")
    order.update(json.loads(sys.stdin.readline()))
    BEHAVIOURS[behaviour]()


main()
