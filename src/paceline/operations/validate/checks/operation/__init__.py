"""Checks of operation: security, health, metrics, cancellation, overload, caching, draining."""
