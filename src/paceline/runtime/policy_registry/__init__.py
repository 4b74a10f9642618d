"""Policies by name: the built-in ones, and those of installed packages.

A package registers a policy by an entry point of the group `paceline.policies`:

    [project.entry-points."paceline.policies"]
    halve = "my_package.halve:POLICY"

`POLICY` is a `PolicyDefinition`, or a policy class that is built with the engine's ceiling as its
only argument. See docs/policies.md.
"""

from paceline.runtime.policy_registry.check import PolicyContractError, check_policy
from paceline.runtime.policy_registry.registry import (
    create_policy,
    find_policy,
    load_policies,
    policy_names,
)

__all__ = [
    "PolicyContractError",
    "check_policy",
    "create_policy",
    "find_policy",
    "load_policies",
    "policy_names",
]
