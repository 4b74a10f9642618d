"""Paceline: a governor for speculative decoding on vLLM, and the system around it.

The code has four floors, `runtime`, `workbench`, `operations` and `foundation`, which
docs/architecture.md draws. Importing `paceline` imports none of them.

The names below are the public surface, for policies in other packages; each is imported on first
use. A policy implements `Policy`, is declared by a `PolicyDefinition` with its `Parameter`s, is
checked against its contract by `check_policy`, and is registered by an entry point of the group
`paceline.policies`. docs/policies.md has an example.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.runtime.governor.policy import Policy
    from paceline.runtime.governor.policy_definition import Parameter, PolicyDefinition
    from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
    from paceline.runtime.policy_registry import (
        PolicyContractError,
        check_policy,
        create_policy,
        policy_names,
    )

__version__ = "0.1.0"

__all__ = [
    "DraftPlan",
    "EngineLoad",
    "Parameter",
    "Policy",
    "PolicyContractError",
    "PolicyDefinition",
    "StepSample",
    "__version__",
    "check_policy",
    "create_policy",
    "policy_names",
]

_MODULES = {
    "DraftPlan": "paceline.runtime.governor.values",
    "EngineLoad": "paceline.runtime.governor.values",
    "Parameter": "paceline.runtime.governor.policy_definition",
    "Policy": "paceline.runtime.governor.policy",
    "PolicyContractError": "paceline.runtime.policy_registry",
    "PolicyDefinition": "paceline.runtime.governor.policy_definition",
    "StepSample": "paceline.runtime.governor.values",
    "check_policy": "paceline.runtime.policy_registry",
    "create_policy": "paceline.runtime.policy_registry",
    "policy_names": "paceline.runtime.policy_registry",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
