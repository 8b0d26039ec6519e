"""Tools: Python functions and MCP servers, each with its schema and its rules."""
