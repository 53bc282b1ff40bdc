"""``evoprompt search-qa eval``: methods times data sets, as a table in the shape of Table 1."""
