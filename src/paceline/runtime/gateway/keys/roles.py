"""`Role`: what the holder of an admin key may do."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """Each role may do what those before it may."""

    READ = "read"
    """Read metrics, governors and replicas."""
    OPERATE = "operate"
    """Also change governors, record, and drain replicas or return them to service."""
    ADMIN = "admin"
    """Also add and remove replicas: an added one receives the prompts of all tenants."""

    def includes(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)
