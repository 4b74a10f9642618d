"""Upgrades under load: a gateway takes over from another, and replicas restart one by one."""
