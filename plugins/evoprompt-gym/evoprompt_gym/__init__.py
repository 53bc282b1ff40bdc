"""Tasks of the library reasoning-gym, by name, with their own scorers."""
