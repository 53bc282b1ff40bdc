"""Search over real passages: corpus files, indexes, an HTTP server and the client of rollouts."""
