"""Checks of replicas and of how requests end."""
