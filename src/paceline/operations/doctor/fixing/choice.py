"""Which change of the governors answers which findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.operations.doctor.readings.probe_result import MeasuredGain
from paceline.operations.doctor.values import Finding

_ABOUT_DRAFTS = frozenset(
    {"speculation-loses", "speculation-hardly-gains", "draft-too-long", "draft-too-short"}
)
_BEST_POLICY = "goodput"
_FREED_POLICIES = frozenset({"fixed", "schedule"})
"""They draft without regard to cost. Other policies were chosen, for latency for example."""
_MIN_GAIN = 1.02
"""A smaller one is not worth another setting. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One change, as PATCH /admin/governor takes it."""

    change: Mapping[str, object]
    replicas: tuple[str, ...]
    findings: tuple[tuple[str, str | None], ...]
    """Id and subject of the findings that it answers."""


@dataclass(frozen=True, slots=True)
class FixResult:
    """What was tried."""

    fix: Fix | None
    """None if no finding can be answered at run time."""
    gain: MeasuredGain | None
    """Tokens/s with the change over those without."""
    is_kept: bool
    reason: str
    """Why it was kept, rolled back, or not tried."""
    is_disturbed: bool = False
    """Another program or an operator set a governor meanwhile."""


def choose_fix(
    findings: Sequence[Finding], governors: Mapping[str, Mapping[str, Any]]
) -> Fix | None:
    """The change for the findings about drafts; None without one.

    Replicas whose length is fixed, or follows a table, get the policy goodput. Drafts are never
    switched off: the measurement has synthetic prompts, and real requests may gain.
    """
    about_drafts = [one for one in findings if one.id in _ABOUT_DRAFTS]
    named = {one.subject for one in about_drafts}
    concerned = [name for name in governors if None in named or name in named]
    policies = {name: governors[name].get("policy") for name in concerned}
    to_free = [name for name, policy in policies.items() if policy in _FREED_POLICIES]
    has_others = not set(policies.values()) <= {_BEST_POLICY, *_FREED_POLICIES}
    answered = tuple(
        (one.id, one.subject)
        for one in about_drafts
        if (not has_others if one.subject is None else one.subject in to_free)
    )
    return Fix({"policy": _BEST_POLICY}, tuple(to_free), answered) if to_free else None


def helps(gain: MeasuredGain) -> bool:
    """Whether the change is kept: it helps for certain, and by 2 % at least."""
    return gain.low > 1 and gain.value >= _MIN_GAIN
