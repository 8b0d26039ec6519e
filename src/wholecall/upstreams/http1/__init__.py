"""HTTP/1.1 to one upstream: requests out, answers back as their bytes come.

`incoming` reads an answer and knows of no connection; `connection` waits for its bytes; `direct`
keeps connections for the next request. `proxied` does the same through a proxy. ARCHITECTURE.md
says why it is not a library's.
"""
