"""An MCP server that follows a script, well or badly. It needs no SDK, and starts at once.

The script is a JSON object in the first argument:

`pages`   what it lists: pages of tools; `later`: what it lists after `change` was called
`starts`  a file in which it counts its starts; `crash`: the starts at which it crashes
`pause`   seconds before it answers anything
`mood`    `silent`: it answers nothing; `stubborn`: it will not end; `modern`: the protocol of 2026

A tool does what its name says.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT: dict[str, Any] = json.loads(sys.argv[1])
MODERN = SCRIPT.get("mood") == "modern"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CACHE = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"} if MODERN else {}
COMPLETE = {"resultType": "complete"} if MODERN else {}
state: dict[str, Any] = {"pages": SCRIPT.get("pages", [[]]), "broken_off": None}


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def discover(_: Any) -> dict[str, Any]:
    if not MODERN:
        raise LookupError
    capabilities = {"tools": {"listChanged": True}}
    return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **CACHE}


def initialize(params: Any) -> dict[str, Any]:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "script", "version": "1"},
    }


def list_tools(params: Any) -> dict[str, Any]:
    page = int((params or {}).get("cursor") or 0)
    answer = {"tools": state["pages"][min(page, len(state["pages"]) - 1)], **CACHE}
    if SCRIPT.get("endless") or page + 1 < len(state["pages"]):
        answer["nextCursor"] = str(page + 1)
    return answer


def say(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **COMPLETE}


def echo(arguments: Any) -> dict[str, Any]:
    return say(json.dumps(arguments, sort_keys=True))


def die(arguments: Any) -> dict[str, Any]:
    with Path(arguments["ran"]).open("a", encoding="utf-8") as file:
        file.write("ran\n")
    os._exit(3)


def die_once(arguments: Any) -> dict[str, Any]:
    ran = Path(arguments["ran"])
    return say("done") if ran.exists() else die(arguments)


def hang(arguments: Any) -> None:
    state["broken_off"] = arguments["port"]
    tell(arguments["port"], "begun")


def tell(port: int, word: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(word.encode())


def change(_: Any) -> dict[str, Any]:
    state["pages"] = SCRIPT["later"]
    meta = {"_meta": {SUBSCRIPTION: state["subscription"]}} if MODERN else {}
    write({"method": "notifications/tools/list_changed", "params": meta})
    return say("changed")


def slip(_: Any) -> dict[str, Any]:
    """Change while nobody listens."""
    state["pages"] = SCRIPT["later"]
    return end_subscription(_)


def end_subscription(_: Any) -> dict[str, Any]:
    write({"id": state["subscription"], "result": COMPLETE})
    return say("ended")


def mumble(arguments: Any) -> dict[str, Any]:
    sys.stdout.buffer.write(b"this is no JSON: \xff\n")
    return echo(arguments)


def answer_nonsense(_: Any) -> dict[str, Any]:
    return {"content": 5}


def ask_back(_: Any) -> dict[str, Any]:
    return {"resultType": "input_required", "requestState": "waiting"}


def ask_user(arguments: Any) -> None:
    """Ask in the middle of the call, as before 2026. The answer is the result."""
    question = {"message": "Which day?", "requestedSchema": arguments["schema"]}
    write({"method": "elicitation/create", "id": f"ask {state['id']}", "params": question})


def hear_user(message: Any) -> None:
    answer = message.get("result") or message["error"]["message"]
    answer = say(json.dumps(answer, sort_keys=True))
    write({"id": int(message["id"].removeprefix("ask ")), "result": answer})


def ask_in_turn(arguments: Any) -> dict[str, Any]:
    """Ask by the result of the call, as since 2026. The answers are the next result."""
    given = state["params"].get("inputResponses")
    if given:
        return say(json.dumps([given, state["params"]["requestState"]], sort_keys=True))
    result = {"resultType": "input_required", "requestState": "opaque"}
    return {**result, "inputRequests": arguments["requests"]}


def refuse(arguments: Any) -> dict[str, Any]:
    raise ValueError(arguments["code"])


def listen(_: Any, request: Any) -> None:
    """Agree to a subscription, as far as the script lets it."""
    state["subscription"] = request
    refusal = SCRIPT.get("refuses_subscription")
    if refusal == "error":
        write({"id": request, "error": {"code": -32601, "message": "no"}})
        return
    params = {
        "notifications": {} if refusal == "honours nothing" else {"toolsListChanged": True},
        "_meta": {SUBSCRIPTION: request},
    }
    write({"method": "notifications/subscriptions/acknowledged", "params": params})
    if refusal == "lost at first" and not state.get("lost"):
        state["lost"] = True
        write({"id": request, "error": {"code": -32000, "message": "lost"}})


Handler = Callable[[Any], dict[str, Any] | None]
METHODS: dict[str, Handler] = {
    "server/discover": discover,
    "initialize": initialize,
    "tools/list": list_tools,
}
TOOLS: dict[str, Handler] = {
    tool.__name__: tool
    for tool in (echo, die, die_once, hang, change, end_subscription, mumble, slip)
} | {
    "answer_nonsense": answer_nonsense,
    "ask_back": ask_back,
    "refuse": refuse,
    "ask_user": ask_user,
    "ask_in_turn": ask_in_turn,
}


def serve(message: Any) -> None:
    method, params = message["method"], message.get("params")
    if method == "notifications/cancelled" and state["broken_off"]:
        tell(state["broken_off"], "broken off")
    if "id" not in message:
        return
    if method == "subscriptions/listen":
        listen(params, message["id"])
        return
    try:
        if method == "tools/call":
            state["params"], state["id"] = params, message["id"]
            answer = TOOLS[params["name"]](params.get("arguments"))
        else:
            answer = METHODS[method](params)
    except LookupError:
        write({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        return
    except ValueError as error:
        write({"id": message["id"], "error": {"code": error.args[0], "message": "refused"}})
        return
    if answer is not None:
        write({"id": message["id"], "result": answer})


def count_start() -> int:
    with Path(SCRIPT["starts"]).open("a+", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
        file.seek(0)
        return len(file.readlines())


def main() -> None:
    if "starts" in SCRIPT and count_start() in SCRIPT.get("crash", []):
        sys.exit("Traceback: the disk is full")
    time.sleep(SCRIPT.get("pause", 0))
    if SCRIPT.get("mood") == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        if SCRIPT.get("mood") != "silent":
            message = json.loads(line)
            (serve if "method" in message else hear_user)(message)
    if SCRIPT.get("mood") == "stubborn":
        threading.Event().wait()


if __name__ == "__main__":
    main()
