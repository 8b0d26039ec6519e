"""From a client's request to the bytes of its response."""
