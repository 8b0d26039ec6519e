"""A small MCP server, as others write them. mcp_tools.py starts it and uses its tools."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

STOCK = {"lamp": 4, "chair": 0}

server = MCPServer("stock")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count(item: str) -> int:
    """How many of an item are in stock."""
    return STOCK[item]


@server.tool()
def reserve(item: str, number: int) -> str:
    """Put items aside for the customer."""
    STOCK[item] -= number
    return f"{number} × {item} put aside, {STOCK[item]} left"


if __name__ == "__main__":
    server.run("stdio")
