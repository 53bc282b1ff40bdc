"""Who answers: a transformers model, an OpenAI-compatible endpoint, or the tiny policy."""
