"""The proxy: one address for OpenAI's and Anthropic's clients, in front of any upstream."""
