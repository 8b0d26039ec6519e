"""The tools of MCP servers: processes that we start, or services that we reach over HTTP.

`server` says which server, `toolset` is what a user opens. Only `connection`, `transport`
and `answers` import the SDK, and only when a server is opened: it takes more than a second.
"""
