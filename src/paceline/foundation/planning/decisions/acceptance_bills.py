"""The same plan at the low, expected and high end of the acceptance, and without speculation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.planning.decisions.candidate import plan_candidate, with_drafter
from paceline.foundation.planning.decisions.planner import Plan
from paceline.foundation.planning.sources.drafters import PUBLISHED
from paceline.foundation.planning.values import AcceptanceRange, Drafter, PlanError, no_drafter


@dataclass(frozen=True, slots=True)
class AcceptanceBill:
    """What one acceptance costs on the hardware and parallelism of the plan."""

    case: str
    """One of: low, expected, high; if, for an acceptance that is unknown; without speculation."""
    acceptance: float | None
    """Per draft token; None without speculation."""
    output_tokens_per_s: float | None
    """Of one replica; None where nothing fits or meets the SLO."""
    replicas: int | None
    usd_per_month: float | None
    """None without a known price."""
    usd_per_million_output_tokens: float | None


def acceptance_bills(plan: Plan) -> list[AcceptanceBill]:
    """Return a bill for each case; none where the plan does not speculate or does not run."""
    if plan.point is None or plan.choice.proposed.kind == "none":
        return []
    return [_bill(plan, *case) for case in _cases(plan.choice.proposed)]


def _cases(drafter: Drafter) -> Iterator[tuple[str, Acceptance | None, Drafter]]:
    known = drafter.acceptance
    cases = list[tuple[str, Acceptance]]()
    if known is None:
        # How often a lookup drafts is unknown too, so no bill is shown.
        cases = [("if", Acceptance(one)) for one in PUBLISHED if drafter.model is not None]
    elif known.low == known.high:
        cases = [("expected", known.expected)]
    else:
        cases = [("low", known.low), ("expected", known.expected), ("high", known.high)]
    for case, acceptance in cases:
        fixed = AcceptanceRange(acceptance, acceptance, acceptance)
        yield case, acceptance, replace(drafter, acceptance=fixed)
    yield "without speculation", None, no_drafter()


def _bill(plan: Plan, case: str, acceptance: Acceptance | None, drafter: Drafter) -> AcceptanceBill:
    per_token = None if acceptance is None else acceptance.per_token
    placement = plan.placement
    try:
        other = plan_candidate(with_drafter(plan.demand, drafter), plan.entry, placement)
    except PlanError:  # More replicas than a plan may have, or a draft that cannot be split so.
        return AcceptanceBill(case, per_token, None, None, None, None)
    if other.point is None or other.fleet is None:
        return AcceptanceBill(case, per_token, None, None, None, None)
    return AcceptanceBill(
        case,
        per_token,
        other.point.output_tokens_per_s,
        other.fleet.replicas,
        other.fleet.usd_per_month,
        other.fleet.usd_per_million_output_tokens,
    )
