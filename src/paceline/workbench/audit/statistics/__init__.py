"""Statistics of an audit, without I/O: claimed distributions, bets, near-ties, power."""
