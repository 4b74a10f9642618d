"""Every built-in policy keeps the contract of policies; the tests find the policies themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import paceline.runtime.governor.policies
from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES, DEFAULT_POLICY
from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.policy_definition import Parameter
from paceline.runtime.policy_registry import check_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

MAX = 8
_VALUES: dict[str, Any] = {"schedule": [[1, 4, 5], [5, 32, 2], [33, 512, 0]], "draft_length": 3}
"""Values for parameters that declare neither a default nor a lowest value."""


def parameters_of(name: str) -> dict[str, Any]:
    return {
        parameter.name: _value(parameter)
        for parameter in BUILTIN_POLICIES[name].parameters
        if parameter.is_required
    }


def _value(parameter: Parameter) -> Any:
    """A value that the declaration allows, so that a new parameter needs no entry here."""
    lowest = None if parameter.lowest is None else parameter.type(parameter.lowest)
    declared = (_VALUES.get(parameter.name), parameter.default, lowest)
    found = next((value for value in declared if value is not None), None)
    assert found is not None, f"parameter {parameter.name}: add a value to _VALUES"
    return found


def test_every_policy_class_belongs_to_a_definition() -> None:
    """No policy is forgotten: a class with `plan` has a definition that builds it."""
    built = {
        type(definition.build(max_draft_length=MAX, parameters=parameters_of(name)))
        for name, definition in BUILTIN_POLICIES.items()
    }
    folder = paceline.runtime.governor.policies
    classes = {
        found
        for info in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}.")
        for _, found in inspect.getmembers(importlib.import_module(info.name), inspect.isclass)
        if hasattr(found, "plan") and found is not Policy
    }
    assert classes == built
    assert {found.__name__ for found in classes} >= {"GoodputPolicy", "FixedPolicy"}
    assert next(iter(BUILTIN_POLICIES)) == DEFAULT_POLICY


@pytest.mark.parametrize("name", BUILTIN_POLICIES)
@pytest.mark.parametrize("max_draft_length", [pytest.param(1, marks=pytest.mark.slow), MAX])
def test_a_policy_keeps_its_contract(name: str, max_draft_length: int) -> None:
    check_policy(name, max_draft_length=max_draft_length, **parameters_of(name))


@pytest.mark.parametrize("name", BUILTIN_POLICIES)
def test_a_policy_keeps_its_contract_with_every_parameter(name: str) -> None:
    """With a value for each parameter, and with an objective for the step."""
    definition = BUILTIN_POLICIES[name]
    values = {parameter.name: _value(parameter) for parameter in definition.parameters}
    if definition.takes_max_step_s:
        check_policy(lambda ceiling: definition.create(ceiling, max_step_s=0.025))
    elif values:
        check_policy(name, **values)


@pytest.mark.parametrize("name", BUILTIN_POLICIES)
@pytest.mark.parametrize("num_requests", [1, 256])
def test_a_seeded_run_is_repeated_exactly(name: str, num_requests: int) -> None:
    """Twice through the simulator: the same lengths, step by step."""
    runs = [_simulate(name, num_requests, 60) for _ in range(2)]
    assert runs[0] == runs[1]


def _simulate(name: str, num_requests: int, num_steps: int) -> list[int]:
    policy = BUILTIN_POLICIES[name].build(max_draft_length=MAX, parameters=parameters_of(name))
    cost = LinearCost(0.02, 0.0005, 0.0002, 0.0003, 0.0002, 0.002, 0.00005)
    machine = Machine(cost, MAX, 256, 2048, "keeps_up", is_async=True)
    kind = TrafficClass("text", Lengths(5, 50), Lengths(20, 200), DraftTruth((0.7, 0.6)))
    phase = Phase("steps", ClosedLoop(num_requests), (kind,), num_steps=num_steps)
    lengths: list[int] = SimulatedEngine(machine, policy, seed=7).run(phase).draft_length.tolist()
    return lengths
