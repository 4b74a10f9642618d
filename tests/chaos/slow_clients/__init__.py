"""Clients that read slowly or not at all, alone and while replicas fail."""
