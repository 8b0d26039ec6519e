"""Three calls at a time, each telling how far it is, while the answer still streams in."""

import asyncio
from collections.abc import AsyncIterator

import wholecall
from wholecall import Text, ToolEnded, ToolReported, ToolStarted, tool


@tool(read_only=True, timeout=10)
async def count_lines(path: str) -> AsyncIterator[str]:
    """Count the lines of a file."""
    for percent in (50, 100):
        await asyncio.sleep(0.01)  # here the work would be done
        yield f"{percent} %"  # progress for the user
    yield f"{path} has 120 lines"  # the last value is the result, for the model


async def main() -> None:
    run = wholecall.run("openai/gpt-x", "How long are a.py, b.py and c.py?", tools=[count_lines])
    async for event in run:
        match event:
            case ToolStarted(call):
                print(call.id, "started:", call.arguments["path"])
            case ToolReported(call_id, progress):
                print(call_id, "reports:", progress)
            case ToolEnded(call, status, result):
                print(call.id, f"{status.value}:", result.text)
            case Text(text):
                print(text, end="")
    print()


if __name__ == "__main__":
    asyncio.run(main())
