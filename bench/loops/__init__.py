"""Agent loops that bench/loop.py measures side by side, each in a process of its own."""
