"""The tools of an MCP server: started here, offered to the model, ended with the block."""

import asyncio
import sys
from pathlib import Path

import wholecall
from wholecall import McpServer, McpTools

STOCK = McpServer(
    "stock",
    command=sys.executable,  # or: command="uvx", args=("mcp-server-time",)
    args=(str(Path(__file__).with_name("stock_server.py")),),
    # We wrote it ourselves, so we believe what it says of its tools: `count` is read-only.
    trusted=True,
    concurrency=4,
)


async def main() -> None:
    async with McpTools(STOCK) as tools:
        print("offered:", ", ".join(tool.name for tool in tools))
        result = await wholecall.ask("openai/gpt-x", "Reserve two lamps for me.", tools=tools)
    for ended in result.ended:
        print(f"{ended.call.name}: {ended.result.text}")
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
