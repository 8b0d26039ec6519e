"""Requests as clients send them, read to values: one file per protocol."""
