"""Your own client, your own loop: we say what may run, and what to tell the model of the rest."""

from __future__ import annotations

from typing import Any

import openai

import wholecall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]


def run(made: wholecall.Call | wholecall.Rejected) -> str:
    if isinstance(made, wholecall.Rejected):
        return wholecall.feedback(made, wholecall.ToolSpec("weather", CITY))
    print("running", made.name, dict(made.arguments))
    return f"rain in {made.arguments['city']}"


def main() -> None:
    client = openai.OpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY, as always
    messages: list[Any] = [{"role": "user", "content": "Weather in Oslo and Rome?"}]
    while messages[-1]["role"] != "assistant":
        with client.chat.completions.with_streaming_response.create(
            model="gpt-x", messages=messages, tools=TOOLS, stream=True
        ) as response:  # the raw bytes, so that a stream that was cut is seen to be cut
            turn = wholecall.assemble("openai-chat", response.iter_bytes(), tools=TOOLS)
        if turn.error:
            raise ConnectionError(turn.error)
        calls = [{"id": made.id, "function": {"name": made.name, "arguments": made.raw}} for made in (*turn.calls, *turn.rejected)]
        results = [{"role": "tool", "tool_call_id": made.id, "content": run(made)} for made in made]
        messages += [{"role": "assistant", "content": turn.text, "tool_calls": calls}, *results]
        messages = wholecall.repair_history("openai-chat", messages)  # as an upstream accepts it
    print(messages[-1]["content"])


if __name__ == "__main__":
    main()
