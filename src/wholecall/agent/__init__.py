"""The agent loop: turns of the model until the final answer, and the tools in between."""
