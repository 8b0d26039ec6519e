"""The proxy: one address for OpenAI's and Anthropic's clients, any upstream behind it."""
