"""Checks of the governor."""
