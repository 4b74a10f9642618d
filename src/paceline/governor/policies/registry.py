"""Which policy belongs to a name, and what it needs to be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from paceline.governor.policies.fixed import FixedPolicy
from paceline.governor.policies.goodput import GoodputPolicy
from paceline.governor.policies.latency import LatencyPolicy
from paceline.governor.policies.schedule import SchedulePolicy, ScheduleRange
from paceline.governor.policies.threshold import ThresholdPolicy
from paceline.governor.policy import Policy

PolicyName = Literal["goodput", "latency", "threshold", "schedule", "fixed", "off"]
POLICY_NAMES: tuple[PolicyName, ...] = get_args(PolicyName)


def create_policy(
    name: str,
    *,
    max_draft_length: int,
    draft_length: int | None = None,
    schedule: Sequence[ScheduleRange] | None = None,
    max_step_s: float = math.inf,
) -> Policy:
    """Build the policy called `name`.

    `max_draft_length` is the engine's ceiling. `draft_length` is for `fixed` (the ceiling where it
    is None), `schedule` for `schedule`, `max_step_s` for `goodput` and `latency`.
    ValueError says what was given and what is allowed.
    """
    if name not in POLICY_NAMES:
        raise ValueError(f"policy is {name!r}; allowed are {', '.join(POLICY_NAMES)}")
    if draft_length is not None and not 0 <= draft_length <= max_draft_length:
        raise ValueError(
            f"draft_length is {draft_length}; allowed is 0 (off) to {max_draft_length}, "
            "the engine's num_speculative_tokens"
        )
    if name == "goodput":
        return GoodputPolicy(max_draft_length, max_step_s=max_step_s)
    if name == "latency":
        return LatencyPolicy(max_draft_length, max_step_s=max_step_s)
    if name == "threshold":
        return ThresholdPolicy(max_draft_length)
    if name == "off":
        return FixedPolicy(0)
    if name == "fixed":
        return FixedPolicy(max_draft_length if draft_length is None else draft_length)
    if schedule is None:
        raise ValueError(
            "policy schedule needs a schedule: a list of [lowest, highest, draft_length], "
            "first range from 1 request"
        )
    return SchedulePolicy(schedule)
