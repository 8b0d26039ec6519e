"""The first contact of a newcomer: recorded streams, and tools to try a model with."""
