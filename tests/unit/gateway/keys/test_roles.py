"""A role may do what the roles before it may, and nothing else."""

from __future__ import annotations

from paceline.runtime.gateway.keys.roles import Role


def test_roles_are_ordered() -> None:
    allowed = {role: [needed for needed in Role if role.includes(needed)] for role in Role}
    assert allowed == {
        Role.READ: [Role.READ],
        Role.OPERATE: [Role.READ, Role.OPERATE],
        Role.ADMIN: [Role.READ, Role.OPERATE, Role.ADMIN],
    }
