"""Files that ``evoprompt new`` writes."""
