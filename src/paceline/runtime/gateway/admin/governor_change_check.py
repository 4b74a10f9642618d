"""Check the body of PATCH /admin/governor, as far as that is possible without the engine.

The engine itself refuses values that do not fit its start-up settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.gateway.http.errors import invalid, refuse_unknown_fields, shown
from paceline.runtime.policy_registry import policy_names

GOVERNOR_FIELDS = ("policy", "policy_parameters", "draft_length", "ceiling")
"""The engine's control channel accepts the same fields."""
_PARAMETERS = "policy_parameters"
_MAX_PARAMETERS_BYTES = 4096
"""Of their JSON. They are kept, and repeated to each engine that starts again."""


def check_governor_change(request: dict[str, Any]) -> dict[str, object]:
    """Return the change, or raise a `Refusal` with a 400 if it is invalid."""
    refuse_unknown_fields(request, GOVERNOR_FIELDS)
    if not request:
        raise invalid(f"Nothing to set; give one of {', '.join(GOVERNOR_FIELDS)}.")
    policy = request.get("policy")
    if "policy" in request and policy not in policy_names():
        raise invalid(
            f"policy is {shown(policy)}; it must be one of {', '.join(policy_names())}"
            f"{did_you_mean(policy, policy_names()) or '.'}",
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
    if not _is_short(request.get(_PARAMETERS)):
        raise invalid(
            f"policy_parameters must have at most {_MAX_PARAMETERS_BYTES} bytes of JSON, with "
            "numbers of at most 64 bits.",
            _PARAMETERS,
        )
    for name in ("draft_length", "ceiling"):
        value = request.get(name)
        if name in request and not (type(value) is int and 0 <= value <= 1024):
            raise invalid(
                f"{name} is {shown(value)}; it must be an integer from 0 (off) to "
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


def without_parameters(change: Mapping[str, object]) -> dict[str, object]:
    """The change without what only the engine can check."""
    return {name: "(not checked)" if name == _PARAMETERS else v for name, v in change.items()}


def _is_short(parameters: object) -> bool:
    try:
        return len(msgspec.json.encode(parameters)) <= _MAX_PARAMETERS_BYTES
    except (OverflowError, ValueError):  # a number of more than 64 bits, or a lone surrogate
        return False
