"""Emulation: offer tools through a prompt and read the answer as if the calls were native."""
