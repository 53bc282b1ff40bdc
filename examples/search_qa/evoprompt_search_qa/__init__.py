"""Multi-hop question answering with a search tool, small enough to train on two CPU cores."""
