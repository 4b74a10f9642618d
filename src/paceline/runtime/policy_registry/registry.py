"""Find a policy by its name, and build it."""

from __future__ import annotations

import math
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES
from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.policy_registry.entry_points import (
    BrokenEntryPoint,
    load_definition,
    registered_names,
)


def policy_names() -> tuple[str, ...]:
    """All names: the built-in policies, the default first, then those of installed packages.

    Imports no package, so a name may turn out to be broken when it is used.
    """
    return (*BUILTIN_POLICIES, *registered_names())


def find_policy(name: str) -> PolicyDefinition:
    """The definition of the policy called `name`.

    ValueError names the known policies, or says why the one of an installed package is broken. For
    a built-in policy no other package is imported.
    """
    builtin = BUILTIN_POLICIES.get(name)
    if builtin is not None:
        return builtin
    if name not in registered_names():
        shown = repr(name)[:100]
        raise ValueError(
            f"policy is {shown}; it must be one of {', '.join(policy_names())}"
            f"{did_you_mean(name, policy_names())}"
        )
    try:
        return load_definition(name)
    except BrokenEntryPoint as error:
        raise ValueError(f"policy {name} cannot be used: {error}") from error


def load_policies() -> list[str]:
    """Import the policies of all installed packages; the names of those that can be used.

    A broken one is logged as an error and left out. Call it at start, so that a change of policy at
    run time imports nothing.
    """
    usable = []
    for name in registered_names():
        try:
            load_definition(name)
        except BrokenEntryPoint:
            continue  # `load_definition` has logged it
        usable.append(name)
    return usable


def create_policy(
    name: str,
    *,
    max_draft_length: int,
    max_step_s: float = math.inf,
    cost_table: CostTable | None = None,
    **parameters: Any,
) -> Policy:
    """Build the policy called `name`.

    `max_draft_length` is the engine's ceiling. `max_step_s` is the objective for the time of a
    step, for policies that keep one; `cost_table` has the durations measured at the start of the
    engine, for policies that use them. `parameters` are the policy's own (docs/policies.md); None
    counts as not given. A parameter that only another built-in policy has is ignored, so that one
    set of settings can serve several policies. ValueError says what was given and what is allowed.
    """
    definition = find_policy(name)
    own = {parameter.name for parameter in definition.parameters}
    given = {
        key: value
        for key, value in parameters.items()
        if key in own or (value is not None and key not in _BUILTIN_PARAMETERS)
    }
    return definition.build(
        max_draft_length=max_draft_length,
        parameters=given,
        max_step_s=max_step_s,
        cost_table=cost_table,
    )


_BUILTIN_PARAMETERS = frozenset(
    parameter.name
    for definition in BUILTIN_POLICIES.values()
    for parameter in definition.parameters
)
