"""Your own anthropic client, asynchronous; a read-only tool starts while the stream still runs."""

import asyncio

import anthropic

import wholecall

SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
SEARCH = {"name": "search", "description": "Search the docs.", "input_schema": SCHEMA}


async def main() -> None:
    client = anthropic.AsyncAnthropic()  # ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, as always
    # `closed` is for tools that may run twice without harm; all others wait for the end.
    spec = wholecall.ToolSpec("search", SCHEMA, start=wholecall.Start.CLOSED)
    async with client.messages.with_streaming_response.create(
        model="claude-x",
        max_tokens=500,
        messages=[{"role": "user", "content": "How do I cut a stream?"}],
        tools=[SEARCH],  # type: ignore[list-item]  # a plain dict, as in Anthropic's own guide
        stream=True,
    ) as response:
        chunks = response.iter_bytes()
        async for event in wholecall.events(chunks, protocol="anthropic", tools=[spec]):
            match event:
                case wholecall.Grew(_, text):
                    print("building", text)
                case wholecall.Released(call):
                    print("run", call.name, dict(call.arguments))
                case wholecall.Ended(finish_reason):
                    print("ended", finish_reason)


if __name__ == "__main__":
    asyncio.run(main())
