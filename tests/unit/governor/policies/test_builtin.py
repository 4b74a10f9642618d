"""The built-in policies are found, in a fixed order."""

from __future__ import annotations

import pytest

from paceline.governor.policies import builtin
from paceline.governor.policies.builtin import BUILTIN_POLICIES, DEFAULT_POLICY
from paceline.governor.policies.fixed import FIXED, OFF
from paceline.governor.policy_definition import PolicyDefinition


def test_the_default_comes_first_and_the_others_by_alphabet() -> None:
    names = list(BUILTIN_POLICIES)
    assert names == ["goodput", "fixed", "latency", "off", "schedule", "threshold"]
    assert DEFAULT_POLICY == "goodput"


def test_each_policy_is_known_by_its_own_name() -> None:
    assert all(definition.name == name for name, definition in BUILTIN_POLICIES.items())
    assert (BUILTIN_POLICIES["fixed"], BUILTIN_POLICIES["off"]) == (FIXED, OFF)


def test_two_policies_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same definition, imported by a second module, is no second policy."""
    other = PolicyDefinition("fixed", "Another.", FIXED.create)
    monkeypatch.setattr(builtin, "_definitions", lambda: iter([FIXED, OFF, FIXED]))
    assert list(builtin._by_name()) == ["fixed", "off"]
    monkeypatch.setattr(builtin, "_definitions", lambda: iter([FIXED, OFF, other]))
    with pytest.raises(ValueError, match="two built-in policies are called fixed; rename one"):
        builtin._by_name()
