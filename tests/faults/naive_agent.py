"""An agent as many are written: join the pieces by index, make the JSON parse, run it."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

TURNS = 6


def post(url: str, payload: object) -> Any:
    request = urllib.request.Request(  # noqa: S310  # the address is the test's own
        url,
        json.dumps(payload).encode(),
        {
            "content-type": "application/json",
            "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        },
    )
    return urllib.request.urlopen(request, timeout=60)  # noqa: S310  # the same


def parse(arguments: str) -> Any:
    """Close what is open: the repair that makes cut calls run."""
    for ending in ("", '"}', "}", "}}"):
        try:
            return json.loads((arguments or "{}") + ending)
        except ValueError:
            continue
    return {}


def ask(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    payload = {
        "model": os.environ["MODEL"],
        "messages": messages,
        "stream": True,
        "tools": [{"type": "function", "function": {"name": "write_file"}}],
    }
    with post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", payload) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            delta = json.loads(line[6:])["choices"][0]["delta"]
            text += delta.get("content") or ""
            for piece in delta.get("tool_calls", ()):
                function = piece["function"]
                call = calls.setdefault(piece["index"], {"name": "", "arguments": ""})
                call["id"] = piece.get("id") or call.get("id")
                call["name"] += function.get("name") or ""
                call["arguments"] += function.get("arguments") or ""
    return text, list(calls.values())


def main() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": os.environ["PROMPT"]}]
    for _ in range(TURNS):
        text, calls = ask(messages)
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            run = {"tool": call["name"], "arguments": parse(call["arguments"])}
            post(os.environ["WHOLECALL_FAULTS_REPORT_URL"], run).close()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "done"})
        if not calls:
            return


if __name__ == "__main__":
    main()
