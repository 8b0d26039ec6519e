"""The configuration: a file, the environment, and safe defaults."""
