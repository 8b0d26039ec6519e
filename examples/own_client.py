"""Your own client, your own loop: we say what may run, and what to tell the model of the rest."""

from typing import Any

import openai

import wholecall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]


def ask(client: openai.OpenAI, messages: list[Any]) -> wholecall.Outcome:
    with client.chat.completions.with_streaming_response.create(
        model="gpt-x", messages=messages, tools=TOOLS, stream=True
    ) as response:  # its raw bytes show whether the stream came to its end
        return wholecall.assemble("openai-chat", response.iter_bytes(), tools=TOOLS)


def run(made: wholecall.Call | wholecall.Rejected) -> str:
    if isinstance(made, wholecall.Rejected):
        return wholecall.feedback(made, wholecall.ToolSpec("weather", CITY))
    return f"rain in {made.arguments['city']}"


def main() -> None:
    client = openai.OpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY, as always
    messages: list[Any] = [{"role": "user", "content": "Weather in Oslo and Rome?"}]
    while (turn := ask(client, messages)).calls or turn.rejected:
        messages.append({"role": "assistant", "content": turn.text, "tool_calls": []})
        calls = messages[-1]["tool_calls"]
        for made in (*turn.calls, *turn.rejected):
            function = {"name": made.name, "arguments": made.raw}
            calls.append({"id": made.id, "type": "function", "function": function})
            messages.append({"role": "tool", "tool_call_id": made.id, "content": run(made)})
        messages = wholecall.repair_history("openai-chat", messages)
    print(turn.error or turn.text)


main()
