"""Models that run on this machine: llama.cpp in a process of its own, and files for it."""
