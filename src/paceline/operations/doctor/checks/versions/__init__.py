"""Checks of the versions that run."""
