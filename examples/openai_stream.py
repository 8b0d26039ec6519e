"""Your own openai client, our assembler: nothing runs that is not whole."""

import openai

import wholecall

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


def main() -> None:
    client = openai.OpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY, as always
    with client.chat.completions.with_streaming_response.create(
        model="gpt-x",
        messages=[{"role": "user", "content": "Weather in Oslo and Rome?"}],
        tools=[WEATHER],  # type: ignore[list-item]  # a plain dict, as in OpenAI's own guide
        stream=True,
    ) as response:
        # The raw bytes, not the parsed chunks: so the terminator is seen as well.
        chunks = response.iter_bytes()
        for event in wholecall.events_sync(chunks, protocol="openai-chat", tools=[WEATHER]):
            match event:
                case wholecall.Text(text):
                    print(text)
                case wholecall.Released(call):
                    print("run", call.name, dict(call.arguments))
                case wholecall.Rejected():
                    print("do not run", event.name, "because", event.detail)


if __name__ == "__main__":
    main()
