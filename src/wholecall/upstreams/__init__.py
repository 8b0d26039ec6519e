"""Upstreams: HTTP endpoints, LiteLLM, local models, recordings."""
