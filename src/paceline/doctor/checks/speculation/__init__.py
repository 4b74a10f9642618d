"""Checks of speculative decoding."""
