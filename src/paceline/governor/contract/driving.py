"""Call a policy as an engine does, and check what is promised about each single answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from paceline.governor.acceptance.confidence_map import Floats
from paceline.governor.policy import ChoosesWidths, Policy
from paceline.governor.values import DraftPlan, DraftRule, EngineLoad, StepSample

MakePolicy = Callable[[], Policy]
"""Builds a new policy, which shares nothing with those built before."""


class Broken(Exception):
    """Ends the check of one promise with its finding."""


def build(make_policy: MakePolicy) -> Policy:
    try:
        return make_policy()
    except Exception as error:
        raise Broken(f"building it raised {_shown(error)}") from error


def observe(policy: Policy, sample: StepSample, when: str) -> None:
    try:
        policy.observe(sample)
    except Exception as error:
        raise Broken(f"observe raised {_shown(error)} {when}") from error


def plan(policy: Policy, load: EngineLoad, when: str) -> DraftPlan:
    """The policy's plan for the load, checked against the promises about a single plan."""
    try:
        plan = policy.plan(load)
    except Exception as error:
        raise Broken(f"plan raised {_shown(error)} {when}") from error
    if not isinstance(plan, DraftPlan):
        raise Broken(f"plan returned {type(plan).__name__} instead of a DraftPlan {when}")
    _check_length(plan, load, when)
    if not isinstance(plan.reason, str) or not plan.reason:
        raise Broken(f"the plan has no reason {when}; its reason is {plan.reason!r}")
    expected = plan.expected_tokens_per_s
    if expected is not None and not isinstance(expected, float | int):
        raise Broken(f"expected_tokens_per_s is {expected!r}, no float and not None, {when}")
    if plan.rule is not None:
        _check_rule(plan.rule, policy, load, when)
    return plan


def choose_widths(
    policy: ChoosesWidths,
    confidences: Floats,
    classes: Sequence[str],
    when: str,
    limits: Sequence[int] | None = None,
) -> Sequence[int]:
    """The widths that it chooses, checked against the promises about them alone; without limits
    where None."""
    num_requests, num_passes = confidences.shape
    given = confidences.copy()
    limits = [num_passes] * num_requests if limits is None else limits
    try:
        widths = policy.choose_widths(given, classes, limits)
    except Exception as error:
        raise Broken(f"choose_widths raised {_shown(error)} {when}") from error
    if given.tobytes() != confidences.tobytes():
        raise Broken(f"choose_widths changed the confidences {when}")
    if len(widths) != num_requests:
        raise Broken(f"choose_widths returned {len(widths)} widths for {num_requests} requests")
    for width in widths:
        if type(width) is not int or not 0 <= width <= num_passes:
            raise Broken(
                f"a width is {width!r} {when}; it must be a whole number from 0 to {num_passes}"
            )
    return widths


def _check_length(plan: DraftPlan, load: EngineLoad, when: str) -> None:
    if type(plan.draft_length) is not int:
        raise Broken(
            f"the draft length is {plan.draft_length!r}, which is not a whole number, {when}"
        )
    if plan.draft_length > load.max_draft_length:
        raise Broken(
            f"the draft length is {plan.draft_length} under a ceiling of {load.max_draft_length} "
            f"{when}"
        )
    if plan.draft_length != load.longest_allowed(plan.draft_length):
        raise Broken(
            f"the draft length is {plan.draft_length}, and {load.allowed_lengths} are allowed, "
            f"{when}"
        )


def _check_rule(rule: DraftRule, policy: Policy, load: EngineLoad, when: str) -> None:
    if not load.reports_confidences:
        raise Broken(f"the plan has a rule, and the engine reports no confidences, {when}")
    if not isinstance(policy, ChoosesWidths):
        raise Broken(f"the plan has a rule, and the policy has no choose_widths, {when}")
    coefficients = [number for pair in rule.maps.values() for number in pair]
    if not all(map(math.isfinite, (rule.least_survival, *rule.pass_tokens, *coefficients))):
        raise Broken(f"the rule has a number that is not finite {when}: {rule}")


def _shown(error: Exception) -> str:
    return f"{type(error).__name__} ({error})"
