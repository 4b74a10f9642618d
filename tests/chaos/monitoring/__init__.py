"""A real Prometheus that scrapes a real gateway: every alert fires, every panel has data."""
