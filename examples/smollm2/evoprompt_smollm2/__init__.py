"""SmolLM2-135M-Instruct, a real language model for a CPU."""
