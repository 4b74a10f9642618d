"""Choose among candidates: which drafter, or none, and how the model is split.

A candidate wins by its own figures, the memory that a draft model takes from the KV cache included,
and always within the SLO: with a stated number of requests a day by the smaller bill and the fewer
GPUs, then by the more output tokens per second. Of equal ones the one without drafts wins. A
drafter of unknown acceptance is no candidate; what it would have to reach is its break-even
acceptance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.planning.decisions.candidate import (
    Candidate,
    Demand,
    plan_candidate,
    with_drafter,
)
from paceline.foundation.planning.values import (
    AcceptanceRange,
    Drafter,
    HardwareEntry,
    Placement,
    PlanError,
    no_drafter,
)

_HIGHEST = 0.99
_HALVINGS = 8
"""To less than a hundredth, to which the result is rounded up."""


@dataclass(frozen=True, slots=True)
class DrafterChoice:
    """The best candidate with drafts, the best without, and which won."""

    proposed: Drafter
    without: Candidate
    with_drafts: Candidate | None
    """None where nothing is proposed, its acceptance is unknown, or it cannot be placed."""
    trial: Candidate | None = None
    """With a drafter of unknown acceptance, so that it can be measured; None for a known one."""
    obstacle: str = ""
    """Why the proposed drafter cannot run here; empty if it can."""
    break_even: float | None = None
    """The acceptance from which the proposed drafter wins; None where it never does."""
    break_even_alone: float | None = None
    """The same with one request at a time."""

    @property
    def speculates(self) -> bool:
        """Whether the candidate with drafts wins."""
        return self.with_drafts is not None and is_better(self.with_drafts, self.without)

    @property
    def winner(self) -> Candidate:
        """The one to deploy."""
        if self.with_drafts is not None and self.speculates:
            return self.with_drafts
        return self.without


def preference(candidate: Candidate) -> tuple[float, ...]:
    """What candidates are compared by: the larger the better."""
    fleet = candidate.fleet
    if candidate.point is None or fleet is None:
        return (float(candidate.fits) - 1.0,)
    bill = gpus = 0.0
    if candidate.demand.load.requests_per_day is not None:
        bill = -math.inf if fleet.usd_per_hour is None else -fleet.usd_per_hour
        gpus = -float(fleet.gpus)
    return (1.0, bill, gpus, candidate.total_tokens_per_s)


def is_better(candidate: Candidate, other: Candidate) -> bool:
    """Whether a candidate beats another; of equal ones neither does."""
    return preference(candidate) > preference(other)


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The best; of equal ones the first. None of none."""
    return max(candidates, key=preference, default=None)


def with_break_even(choice: DrafterChoice) -> DrafterChoice:
    """The choice with the acceptance from which its drafter wins, at its load and for one request.

    Lookups are counted as if they drafted in every step.
    """
    if choice.proposed.kind == "none" or choice.without.point is None or choice.obstacle:
        return choice
    base = choice.without if choice.with_drafts is None else choice.with_drafts
    demand, entry, placement = base.demand, base.entry, base.placement
    alone = replace(demand, load=replace(demand.load, concurrency=1, requests_per_day=None))
    return replace(
        choice,
        break_even=_break_even(demand, entry, placement, choice.proposed, choice.without),
        break_even_alone=_break_even(alone, entry, placement, choice.proposed, None),
    )


def _break_even(
    demand: Demand,
    entry: HardwareEntry,
    placement: Placement,
    drafter: Drafter,
    rival: Candidate | None,
) -> float | None:
    """The lowest acceptance with which the drafter beats `rival`, by default that without one."""
    if rival is None:
        rival = plan_candidate(with_drafter(demand, no_drafter()), entry, placement)

    def wins(per_token: float) -> bool:
        known = Acceptance(per_token)
        drafting = replace(drafter, acceptance=AcceptanceRange(known, known, known))
        assert rival is not None
        try:
            candidate = plan_candidate(with_drafter(demand, drafting), entry, placement)
        except PlanError:
            return False
        return is_better(candidate, rival)

    low, high = 0.0, _HIGHEST
    if not wins(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if wins(middle) else (middle, high)
    return math.ceil(high * 100) / 100
