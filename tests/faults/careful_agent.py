"""An agent of a hundred lines around wholecall's outcome: it runs what is whole, once."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import wholecall
from wholecall.faults.script import TOOLS, definitions

PROTOCOL = "openai-chat"
TURNS = 8
ATTEMPTS = 3
IDENTICAL = 5
UNREACHABLE = (OSError, http.client.HTTPException)


class Agent:
    def __init__(self, environment: Mapping[str, str], *, patience: float = 2.0) -> None:
        self._environment = environment
        self._patience = patience
        self._made: Counter[str] = Counter()
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": environment["PROMPT"]}]

    def run(self) -> str:
        """The final answer; what cannot be had is an exception."""
        for _ in range(TURNS):
            offered = max(self._made.values(), default=0) < IDENTICAL
            outcome = self._ask(offered=offered)
            if not (outcome.calls or outcome.rejected):
                return outcome.text
            self._answer(outcome)
        return self._ask(offered=False).text

    # ── The model ───────────────────────────────────────────────────────────────────

    def _ask(self, *, offered: bool) -> wholecall.Outcome:
        for _ in range(ATTEMPTS):
            try:
                outcome = self._ask_once(offered=offered)
            except UNREACHABLE as error:
                self._give_up_on(error)
                continue
            nothing = not (outcome.text or outcome.calls or outcome.rejected)
            if outcome.error is None and not nothing:
                return outcome
        raise RuntimeError("no answer")

    def _give_up_on(self, error: Exception) -> None:
        hopeless = isinstance(error, urllib.error.HTTPError) and (
            error.code in (400, 401, 404) or error.headers.get("retry-after") == "3600"
        )
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        if hopeless:
            raise RuntimeError(str(error))

    def _ask_once(self, *, offered: bool) -> wholecall.Outcome:
        payload: dict[str, Any] = {
            "model": self._environment["MODEL"],
            "messages": self._messages,
            "stream": True,
        }
        if offered:
            payload["tools"] = definitions(PROTOCOL)
        url = self._environment["OPENAI_BASE_URL"] + "/chat/completions"
        with self._post(url, payload) as answer:
            return wholecall.assemble(PROTOCOL, _pieces(answer), tools=TOOLS)

    def _post(self, url: str, payload: object) -> Any:
        request = urllib.request.Request(  # noqa: S310  # the address is the test's own
            url,
            json.dumps(payload).encode(),
            {
                "content-type": "application/json",
                "authorization": f"Bearer {self._environment['OPENAI_API_KEY']}",
            },
        )
        return urllib.request.urlopen(request, timeout=self._patience)  # noqa: S310  # the same

    # ── The tools ───────────────────────────────────────────────────────────────────

    def _answer(self, outcome: wholecall.Outcome) -> None:
        """Run what may run; say of everything else why it may not."""
        results: list[tuple[wholecall.Call | wholecall.Rejected, str]] = [
            *((call, self._run(call)) for call in outcome.calls),
            *((rejected, self._refuse(rejected)) for rejected in outcome.rejected),
        ]
        self._messages.append(
            {
                "role": "assistant",
                "content": outcome.text,
                "tool_calls": [_entry(made) for made, _ in results],
            }
        )
        self._messages += (
            {"role": "tool", "tool_call_id": made.id, "content": text} for made, text in results
        )

    def _run(self, call: wholecall.Call) -> str:
        self._made[f"{call.name}{call.raw}"] += 1
        report = {"tool": call.name, "arguments": call.arguments}
        self._post(self._environment["WHOLECALL_FAULTS_REPORT_URL"], report).close()
        return "done"

    def _refuse(self, rejected: wholecall.Rejected) -> str:
        self._made[f"{rejected.name}{rejected.raw}"] += 1
        offer = {tool.name: tool for tool in TOOLS}
        return wholecall.feedback(rejected, offer.get(rejected.name or ""), offer=offer)


def _pieces(answer: Any) -> Iterator[bytes]:
    while piece := answer.read1(65536):
        yield piece


def _entry(made: wholecall.Call | wholecall.Rejected) -> dict[str, Any]:
    arguments = made.arguments if isinstance(made, wholecall.Call) else {}
    function = {"name": made.name or "unknown", "arguments": json.dumps(arguments)}
    return {"id": made.id, "type": "function", "function": function}


if __name__ == "__main__":
    print(Agent(os.environ).run())  # noqa: T201  # what an agent is for
