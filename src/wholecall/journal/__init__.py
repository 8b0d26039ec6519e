"""Durable runs: a journal on disk, and runs restored from it."""
