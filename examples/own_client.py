"""Your own client, your own loop: we say what may run, and what to tell the model of the rest."""

from typing import Any

import openai

import wholecall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
SPEC = wholecall.ToolSpec("weather", CITY)


def ask(client: openai.OpenAI, messages: list[Any]) -> wholecall.Outcome:
    with client.chat.completions.with_streaming_response.create(
        model="gpt-x", messages=messages, tools=TOOLS, stream=True
    ) as response:  # its raw bytes show whether the stream came to its end
        return wholecall.assemble("openai-chat", response.iter_bytes(), tools=[SPEC])


def encode(made: wholecall.Call | wholecall.Rejected) -> dict[str, Any]:
    function = {"name": made.name, "arguments": made.raw}
    return {"id": made.id, "type": "function", "function": function}


def main() -> None:
    client = openai.OpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY, as always
    messages: list[Any] = [{"role": "user", "content": "Weather in Oslo and Rome?"}]
    while (turn := ask(client, messages)).calls or turn.rejected:
        told = {call.id: f"rain in {call.arguments['city']}" for call in turn.calls}
        told |= {rejected.id: wholecall.feedback(rejected, SPEC) for rejected in turn.rejected}
        calls = [*map(encode, turn.calls), *map(encode, turn.rejected)]
        messages.append({"role": "assistant", "content": turn.text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": id, "content": told[id]} for id in told]
        messages = wholecall.repair_history("openai-chat", messages)
    print(turn.error or turn.text)


if __name__ == "__main__":
    main()
