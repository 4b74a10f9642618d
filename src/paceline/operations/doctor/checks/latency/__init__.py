"""Checks of latency."""
