"""Make a plan: the candidates on given GPUs, and those of every machine where none is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from paceline.foundation.capacity.model.matrices import tensor_parallel_sizes
from paceline.foundation.planning.decisions.candidate import (
    Candidate,
    Demand,
    plan_candidate,
    with_drafter,
)
from paceline.foundation.planning.decisions.choice import DrafterChoice, best_of, with_break_even
from paceline.foundation.planning.values import (
    Drafter,
    HardwareEntry,
    NothingFits,
    Offer,
    Placement,
    PlanError,
    no_drafter,
)

SMALL_LOAD_REQUESTS = 8
"""Requests at once that a machine has to hold where neither hardware nor a load is given: a team
that tries a model. Chosen empirically."""
_MAX_OPTIONS = 8


@dataclass(frozen=True, slots=True)
class Plan(Candidate):
    """The winning candidate, and what it was compared with."""

    choice: DrafterChoice
    why_parallel: str
    machines: tuple[Candidate, ...] = ()
    """The machines that were compared where none was given, the cheapest first."""


def make_plan(
    demand: Demand, entry: HardwareEntry, num_gpus: int, tensor_parallel: int | None
) -> Plan:
    """Plan for `num_gpus` of one kind, split by `tensor_parallel` or by the best size.

    Raises `PlanError` for a size that is not allowed.
    """
    if tensor_parallel is not None:
        if num_gpus % tensor_parallel:
            raise PlanError(
                f"--num-gpus {num_gpus} is no multiple of --tensor-parallel {tensor_parallel}"
            )
        sizes = [tensor_parallel]
    else:
        most = min(num_gpus, entry.hardware.gpus_per_machine)
        allowed = tensor_parallel_sizes(demand.model.shape)
        sizes = [size for size in allowed if size <= most and num_gpus % size == 0]
    placements = [Placement(entry.hardware, num_gpus, size) for size in sizes]
    proposed = demand.drafter
    plain = with_drafter(demand, _without(proposed))
    without_all = [plan_candidate(plain, entry, one) for one in placements]
    without = best_of(without_all)
    assert without is not None
    if without.point is None and not without.fits:
        without = without_all[-1]
    with_all, obstacle = _with_drafts(demand, entry, placements)
    with_drafts, trial = best_of(with_all), None
    if proposed.kind != "none" and proposed.acceptance is None:
        trial = next((one for one in with_all if one.placement == without.placement), None)
        with_all, with_drafts = [], None
    if trial is not None and trial.point is None:
        lacks = "misses the SLO" if trial.fits else "leaves no memory for a request"
        trial, obstacle = None, f"it {lacks}"
    elif with_drafts is not None or trial is not None:
        obstacle = ""
    choice = DrafterChoice(proposed, without, with_drafts, trial, obstacle)
    winner = choice.winner
    rivals = with_all if choice.speculates else without_all
    why = "as given" if tensor_parallel is not None else _why_parallel(winner, rivals)
    return _plan_of(winner, choice, why)


def explain_choice(plan: Plan) -> Plan:
    """The plan with the break-even acceptance of its drafter."""
    return replace(plan, choice=with_break_even(plan.choice))


def choose_hardware(demand: Demand, entries: Iterable[HardwareEntry]) -> Plan:
    """Return the plan on the cheapest machine that is sold and holds the load.

    The load is that of `requests_per_day` or `concurrency`, or `SMALL_LOAD_REQUESTS` at once.
    Raises `NothingFits` where no machine holds it within the SLO.
    """
    least = 1
    if demand.load.requests_per_day is None:
        least = demand.load.concurrency or SMALL_LOAD_REQUESTS
    found = list[Plan]()
    for entry in entries:
        for offer in _cheapest_of_each_size(entry.offers):
            plan = _or_none(demand, replace(entry, offers=(offer,)), offer.num_gpus)
            if plan is not None and _requests_at_once(plan) >= least:
                found.append(plan)
    if not found:
        raise NothingFits(
            f"{demand.model.name} fits on no machine of the catalogue within the limits given"
        )
    found.sort(key=_cheapest_first)
    return replace(found[0], machines=tuple(found[:_MAX_OPTIONS]))


def _with_drafts(
    demand: Demand, entry: HardwareEntry, placements: Iterable[Placement]
) -> tuple[list[Candidate], str]:
    """The candidates with the demand's drafter, and why some placements have none."""
    found, obstacle = list[Candidate](), ""
    if demand.drafter.kind == "none":
        return found, obstacle
    for placement in placements:
        try:
            found.append(plan_candidate(demand, entry, placement))
        except PlanError as error:
            obstacle = str(error)
    return found, obstacle


def _requests_at_once(plan: Plan) -> int:
    return 0 if plan.point is None else plan.point.num_requests * plan.num_replicas


def _cheapest_first(plan: Plan) -> tuple[float, float]:
    assert plan.fleet is not None
    price = plan.fleet.usd_per_hour
    return (float("inf") if price is None else price, -plan.total_tokens_per_s)


def _cheapest_of_each_size(offers: Iterable[Offer]) -> list[Offer]:
    cheapest: dict[int, Offer] = {}
    for offer in sorted(offers, key=lambda one: one.usd_per_hour):
        cheapest.setdefault(offer.num_gpus, offer)
    return [cheapest[size] for size in sorted(cheapest)]


def _or_none(demand: Demand, entry: HardwareEntry, num_gpus: int) -> Plan | None:
    """Replicas on all of `num_gpus`, if they fit and meet the SLO."""
    try:
        plan = make_plan(demand, entry, num_gpus, None)
    except PlanError:
        return None  # A format that the hardware lacks.
    return plan if plan.fleet is not None else None


def _without(proposed: Drafter) -> Drafter:
    return proposed if proposed.kind == "none" else no_drafter("no drafts")


def _plan_of(candidate: Candidate, choice: DrafterChoice, why: str) -> Plan:
    values = {field.name: getattr(candidate, field.name) for field in fields(Candidate)}
    return Plan(**values, choice=choice, why_parallel=why)


def _why_parallel(best: Candidate, rivals: Iterable[Candidate]) -> str:
    parts = []
    for one in rivals:
        if one.point is None:
            what = "does not fit" if not one.fits else "misses the SLO"
        else:
            what = f"gives {one.total_tokens_per_s:,.0f} tokens/s"
        parts.append(f"size {one.placement.tensor_parallel} {what}")
    size = best.placement.tensor_parallel
    if best.point is None:
        return "; ".join(parts)
    by = "costs least" if best.demand.load.requests_per_day is not None else "gives the most"
    return f"{'; '.join(parts)}: {size} {by}"
