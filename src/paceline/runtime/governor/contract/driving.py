"""Call a policy as an engine does, and check what is promised about each single answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.contract.samples import Spread, step_of, varied_confidences
from paceline.runtime.governor.policy import ChoosesWidths, Policy
from paceline.runtime.governor.values import (
    DraftPlan,
    DraftRule,
    EngineLoad,
    StepSample,
    check_widths,
)

MakePolicy = Callable[[], Policy]
"""Builds a new policy, which shares nothing with those built before."""
Step = tuple[StepSample | EngineLoad, str]
"""A sample to observe or a load to plan for, and when that is, for the finding."""


class Broken(Exception):
    """Ends the check of one promise with its finding."""


def build(make_policy: MakePolicy) -> Policy:
    return _call("building it", "", make_policy)  # type: ignore[no-any-return]


def observe(policy: Policy, sample: StepSample, when: str) -> None:
    _call("observe", when, lambda: policy.observe(sample))


def plan(policy: Policy, load: EngineLoad, when: str) -> DraftPlan:
    """The policy's plan for the load, checked against the promises about a single plan."""
    plan = _call("plan", when, lambda: policy.plan(load))
    if not isinstance(plan, DraftPlan):
        raise Broken(f"plan returned {type(plan).__name__} instead of a DraftPlan {when}")
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
    if not plan.reason:
        raise Broken(f"the plan has no reason {when}")
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
    given = confidences.copy()
    num_requests, num_passes = confidences.shape
    limits = [num_passes] * num_requests if limits is None else limits
    widths: Sequence[int] = _call(
        "choose_widths", when, lambda: policy.choose_widths(given, classes, limits)
    )
    if given.tobytes() != confidences.tobytes():
        raise Broken(f"choose_widths changed the confidences {when}")
    try:
        check_widths(widths, confidences.shape)
    except (TypeError, ValueError) as error:
        raise Broken(f"{error}, {when}") from error
    return widths


def follow(make_policy: MakePolicy, ceiling: int, script: Iterable[Step]) -> None:
    """Have a new policy observe and plan all steps, and choose widths for plans with a rule."""
    policy, spread = build(make_policy), Spread(5)
    for given, when in script:
        if isinstance(given, StepSample):
            observe(policy, given, when)
        elif plan(policy, given, when).rule is not None and isinstance(policy, ChoosesWidths):
            confidences = varied_confidences(spread, 2, ceiling)
            choose_widths(policy, confidences, ["greedy", "of no other"], when)


def drive(
    policy: Policy, load: EngineLoad, num_steps: int, when: str = ""
) -> Iterator[tuple[int, str]]:
    """Each draft length and its reason, in an engine that drafts what is planned and verifies what
    is chosen."""
    spread, num_requests = Spread(load.num_requests), load.num_requests
    classes = tuple(islice(cycle(load.classes), num_requests))
    drafts = varied_confidences(spread, num_requests, 0)
    widths: Sequence[int] = ()
    for step in range(num_steps):
        now = f"{when}in step {step}"
        planned = plan(policy, load, now)
        observe(policy, step_of(spread, drafts, widths, planned.draft_length, classes), now)
        drafts = varied_confidences(spread, num_requests, planned.draft_length)
        widths = [planned.draft_length] * num_requests
        if planned.rule is not None and isinstance(policy, ChoosesWidths):
            widths = choose_widths(policy, drafts, classes, now)
        yield planned.draft_length, planned.reason


def _check_rule(rule: DraftRule, policy: Policy, load: EngineLoad, when: str) -> None:
    if not load.reports_confidences:
        raise Broken(f"the plan has a rule, and the engine reports no confidences, {when}")
    if not isinstance(policy, ChoosesWidths):
        raise Broken(f"the plan has a rule, and the policy has no choose_widths, {when}")
    coefficients = [number for pair in rule.maps.values() for number in pair]
    if not all(map(math.isfinite, (rule.least_survival, *rule.pass_tokens, *coefficients))):
        raise Broken(f"the rule has a number that is not finite {when}: {rule}")


def _call(what: str, when: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise Broken(f"{what} raised {type(error).__name__} ({error}) {when}".rstrip()) from error
