"""Checks of an engine's log."""
