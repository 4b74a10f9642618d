"""Check a policy against its contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paceline.runtime.governor.contract import BrokenPromise, find_broken_promises
from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.policy_registry.registry import find_policy


class PolicyContractError(Exception):
    """A policy breaks its contract; the message lists every broken promise."""

    def __init__(self, name: str, broken: Sequence[BrokenPromise]) -> None:
        lines = "\n".join(f"- {one}" for one in broken)
        super().__init__(f"policy {name} breaks {len(broken)} of its promises:\n{lines}")
        self.broken = tuple(broken)


def check_policy(
    policy: str | PolicyDefinition | Callable[..., Policy],
    *,
    max_draft_length: int = 8,
    **parameters: Any,
) -> None:
    """Raise PolicyContractError unless the policy keeps every promise of `paceline.Policy`.

    `policy` is a name, a definition, or a class or function that builds a policy when called with
    the ceiling and `parameters`. The checks take some seconds. ValueError for an unknown name, or
    for parameters that the policy does not have.
    """
    if isinstance(policy, str):
        policy = find_policy(policy)
    if not isinstance(policy, PolicyDefinition) and not callable(policy):
        raise ValueError(
            f"policy is a {type(policy).__name__}; it must be a name, a PolicyDefinition, or a "
            "class or function that builds new policies"
        )
    if isinstance(policy, PolicyDefinition):
        definition = policy
        definition.read_parameters(parameters)
        name = definition.name

        def make_policy() -> Policy:
            return definition.build(max_draft_length=max_draft_length, parameters=parameters)

    else:
        create = policy
        name = getattr(create, "__name__", repr(create))

        def make_policy() -> Policy:
            return create(max_draft_length, **parameters)

    broken = find_broken_promises(make_policy, max_draft_length)
    if broken:
        raise PolicyContractError(name, broken)
