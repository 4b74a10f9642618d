"""Check the body of PATCH /admin/governor, as far as that is possible without the engine.

The engine itself refuses values that do not fit its start-up settings.
"""

from __future__ import annotations

from typing import Any

from paceline.gateway.http.errors import invalid
from paceline.policy_registry import policy_names

_SETTABLE = ("policy", "policy_parameters", "draft_length", "ceiling")
"""The engine's control channel accepts the same fields."""


def check_governor_change(request: dict[str, Any]) -> dict[str, object]:
    """Return the change, or raise a `Refusal` with a 400 if it is invalid."""
    unknown = sorted(set(request) - set(_SETTABLE))
    if unknown:
        raise invalid(
            f"{unknown[0][:100]!r} cannot be set; the settable fields are {', '.join(_SETTABLE)}.",
            unknown[0][:100],
            code="unknown_field",
        )
    if not request:
        raise invalid(f"Nothing to set; give one of {', '.join(_SETTABLE)}.")
    policy = request.get("policy")
    if "policy" in request and policy not in policy_names():
        raise invalid(
            f"policy is {str(policy)[:100]!r}; it must be one of {', '.join(policy_names())}.",
            "policy",
        )
    if "policy_parameters" in request and not (
        isinstance(request["policy_parameters"], dict)
        and "policy" in request
        and "draft_length" not in request
    ):
        raise invalid(
            "policy_parameters must be an object; it needs policy in the same request and excludes "
            "draft_length.",
            "policy_parameters",
        )
    for name in ("draft_length", "ceiling"):
        value = request.get(name)
        if name in request and not (type(value) is int and 0 <= value <= 1024):
            raise invalid(
                f"{name} is {str(value)[:100]}; it must be an integer from 0 (off) to "
                "engine.draft_length_max.",
                name,
            )
    if "draft_length" in request and policy not in (None, "fixed"):
        raise invalid(
            f"draft_length is allowed only with the policy fixed, not with {policy}; leave one of "
            "them out.",
            "draft_length",
        )
    return request
