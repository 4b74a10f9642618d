"""Paired statistics over conversations, without I/O."""
