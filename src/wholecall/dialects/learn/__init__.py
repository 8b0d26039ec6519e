"""Learn a dialect from a chat template or load one from a response template."""
