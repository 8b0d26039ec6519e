"""What a newcomer meets first: recorded streams, and tools to try a model with."""
