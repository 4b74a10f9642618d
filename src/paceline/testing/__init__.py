"""Servers and machines with known truth, for tests and for predictions."""
