"""Who answers for the model: HTTP endpoints, LiteLLM, recordings."""
