"""The built-in policies by name, in a fixed order."""

from __future__ import annotations

from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES, DEFAULT_POLICY
from paceline.runtime.governor.policies.fixed import FIXED, OFF


def test_the_default_comes_first_and_the_others_by_alphabet() -> None:
    names = list(BUILTIN_POLICIES)
    assert names == ["goodput", "fixed", "latency", "off", "schedule", "threshold"]
    assert DEFAULT_POLICY == "goodput"


def test_each_policy_is_known_by_its_own_name() -> None:
    assert all(definition.name == name for name, definition in BUILTIN_POLICIES.items())
    assert (BUILTIN_POLICIES["fixed"], BUILTIN_POLICIES["off"]) == (FIXED, OFF)
