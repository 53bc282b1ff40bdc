"""What an adapter needs to attach a trainer: binding, prompts, rows and approvals."""
