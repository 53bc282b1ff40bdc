"""Everything between a configuration file and a directory of results."""
