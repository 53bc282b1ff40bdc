"""Parts for adapters that attach a trainer: binding, prompts, rows and approvals."""
