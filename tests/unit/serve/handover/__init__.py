"""A new `paceline serve` takes over from a running one, in one process or in two."""
