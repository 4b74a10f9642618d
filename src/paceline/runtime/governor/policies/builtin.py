"""The built-in policies by name.

Policies of installed packages are added by `paceline.runtime.policy_registry`.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.runtime.governor.policies import fixed, goodput, latency, schedule, threshold
from paceline.runtime.governor.policy_definition import PolicyDefinition

DEFAULT_POLICY = goodput.POLICY.name

_DEFINITIONS = (
    goodput.POLICY,
    fixed.FIXED,
    latency.POLICY,
    fixed.OFF,
    schedule.POLICY,
    threshold.POLICY,
)

BUILTIN_POLICIES: Mapping[str, PolicyDefinition] = {policy.name: policy for policy in _DEFINITIONS}
"""The default first, then by alphabet."""
