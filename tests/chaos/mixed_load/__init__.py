"""Streams of every kind at once, some of them read slowly, while replicas fail."""
