"""How many replicas a load needs, in how many regions, and what they cost.

Replicas are added until the share of requests that the SLO names finds a slot soon enough at the
peak, by the M/M/c queue of all slots of a region, and until the load of the slots is below
`MAX_LOAD`. Soon enough is what the SLO leaves of the time to first token with all slots in use, so
the plan holds at every load that the slots admit. At the peak itself, the wait for prompts is that
of a replica with its share of the arrivals. With several regions the plan survives the loss of one:
the others take its traffic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.capacity.cost import (
    Payback,
    monthly_usd,
    usd_per_million_of_load,
    usd_per_million_tokens,
)
from paceline.foundation.capacity.queueing import wait_quantile_s
from paceline.foundation.planning.decisions.performance import BatchPerformance
from paceline.foundation.planning.decisions.rental import Rental, rent
from paceline.foundation.planning.decisions.waits import loaded_wait_s
from paceline.foundation.planning.values import Load, Offer, Placement, PlanError, Slo

MAX_LOAD = 0.85
"""Of the slots in use at the peak. Chosen empirically: above it, bursts shorter than the peak fill
the queue."""
DEFAULT_MAX_WAIT_S = 1.0
"""Where no SLO on the time to first token is given."""
_MAX_REPLICAS = 1_000_000


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Replicas for a load, or those of the given GPUs where no load is stated."""

    regions: int
    replicas_per_region: int
    gpus: int
    """Of the replicas of all regions."""
    load_fraction: float | None
    """Slots in use at the peak; None without a stated load."""
    slot_wait_s: float | None
    """For a slot at the peak, at the quantile of the SLO; None without a stated load."""
    prompt_wait_s: float | None
    """The same for the prompts of other requests, once a request has its slot."""
    rental: Rental | None
    """None where no offer with a known price holds a replica."""
    usd_per_hour: float | None
    """Of the rented machines, idle GPUs included."""
    usd_per_month: float | None
    usd_per_million_output_tokens: float | None
    """At the stated load, or with every slot in use."""
    usd_per_million_output_tokens_at_full_load: float | None
    payback: Payback | None

    @property
    def replicas(self) -> int:
        """Of all regions."""
        return self.regions * self.replicas_per_region


@dataclass(frozen=True, slots=True)
class Bill:
    """What is paid at present, and what the change costs once."""

    present_usd_per_month: float | None = None
    one_time_usd: float = 0.0


def plan_fleet(
    point: BatchPerformance,
    load: Load,
    slo: Slo,
    placement: Placement,
    bill: Bill,
    *,
    offers: Sequence[Offer],
    smaller_batches: Sequence[BatchPerformance] = (),
) -> FleetPlan:
    """Return the fleet for a replica that runs at `point`, on machines of `offers`.

    `smaller_batches` give the replica's pace with fewer requests, in ascending order; without them
    a request takes as long as at `point`.
    """
    peak = load.peak_requests_per_s
    per_region = placement.num_replicas
    load_fraction = slot_wait_s = prompt_wait_s = None
    if peak is not None:
        # With one region of several lost, the others share the whole peak.
        arrivals = peak / max(1, load.regions - 1)
        per_region = _replicas(point, arrivals, slo)
        load_fraction = arrivals / (per_region * point.requests_per_s)
        slot_wait_s = _slot_wait_s(point, arrivals, slo, per_region)
        uses = [batch.slots for batch in (*smaller_batches, point)]
        try:
            prompt_wait_s = loaded_wait_s(uses, arrivals / per_region, slo.quantile)
        except ValueError as error:  # Drafts leave a step too few tokens for the prompts.
            raise PlanError(str(error)) from None
    replicas = per_region * load.regions
    gpus = replicas * placement.tensor_parallel
    rental = rent(offers, per_region, load.regions, placement.tensor_parallel)
    hourly = full = at_load = monthly = payback = None
    if rental is not None:
        hourly = rental.usd_per_hour
        full = usd_per_million_tokens(hourly, replicas * point.output_tokens_per_s)
        at_load = full
        monthly = monthly_usd(hourly)
        if load.requests_per_day is not None:
            tokens_per_day = load.requests_per_day * load.output_tokens
            at_load = usd_per_million_of_load(monthly, tokens_per_day)
        if bill.present_usd_per_month is not None:
            payback = Payback(bill.present_usd_per_month, monthly, bill.one_time_usd)
    return FleetPlan(
        load.regions,
        per_region,
        gpus,
        load_fraction,
        slot_wait_s,
        prompt_wait_s,
        rental,
        hourly,
        monthly,
        at_load,
        full,
        payback,
    )


def _max_wait_s(point: BatchPerformance, slo: Slo) -> float:
    if slo.ttft_ms is None:
        return DEFAULT_MAX_WAIT_S
    return max(0.0, slo.ttft_ms / 1e3 - point.ttft_s)


def _slot_wait_s(point: BatchPerformance, arrivals_per_s: float, slo: Slo, replicas: int) -> float:
    slots = replicas * point.num_requests
    return wait_quantile_s(slots, arrivals_per_s, point.residence_s, slo.quantile)


def _replicas(point: BatchPerformance, arrivals_per_s: float, slo: Slo) -> int:
    """The fewest replicas of a region that keep the load and the wait low enough."""
    max_wait_s = _max_wait_s(point, slo)

    def is_enough(replicas: int) -> bool:
        return _slot_wait_s(point, arrivals_per_s, slo, replicas) <= max_wait_s

    least = max(1, math.ceil(arrivals_per_s / (point.requests_per_s * MAX_LOAD)))
    if least > _MAX_REPLICAS:
        raise PlanError(
            f"the load needs {least} replicas in a region, more than {_MAX_REPLICAS}; set "
            "--requests-per-day lower or --regions higher"
        )
    low, high = least, least
    while not is_enough(high):
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
