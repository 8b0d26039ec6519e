"""HTTP/1.1 to one upstream: requests out, answers back as their bytes come.

`incoming` parses an answer and does no I/O; `connection` waits for its bytes; `pool` keeps
connections for the next request; `route` reaches the upstream, also through a proxy.
docs/decisions/001-http-client.md says why this is not a library's.
"""
