"""Checks of performance under the tier's load."""
