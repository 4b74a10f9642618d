"""Checks of memory, queues and descriptors."""
