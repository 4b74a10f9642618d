"""Where nothing fits: how much memory is missing, and the smallest plans that work.

A remedy changes one thing of what was asked: the number of GPUs, the bits of the weights, or the
machine. The smallest is the one with the lowest rent; each is planned, not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from paceline.foundation.capacity.model.weight_format import named_format
from paceline.foundation.planning.decisions.advice import why_refused
from paceline.foundation.planning.decisions.candidate import Candidate, Demand
from paceline.foundation.planning.decisions.planner import Plan, choose_hardware, make_plan
from paceline.foundation.planning.values import HardwareEntry, NothingFits, PlanError

_GIB = 1024**3
_SCHEMES = ("fp8", "w8a8", "awq")
_MAX_REMEDIES = 3


@dataclass(frozen=True, slots=True)
class Remedy:
    """A plan that works, and the options that ask for it."""

    options: str
    candidate: Candidate

    @property
    def usd_per_hour(self) -> float:
        """Infinite without a known price."""
        fleet = self.candidate.fleet
        price = None if fleet is None else fleet.usd_per_hour
        return math.inf if price is None else price

    @property
    def sentence(self) -> str:
        """The options, what they hold, and the rent."""
        point = self.candidate.point
        assert point is not None
        price = "" if math.isinf(self.usd_per_hour) else f", {self.usd_per_hour:,.2f} USD/hour"
        requests = "request" if point.num_requests == 1 else "requests"
        return f"{self.options}: {point.num_requests} {requests} at once{price}"


def remedies_for(plan: Plan, machines: Iterable[HardwareEntry]) -> list[Remedy]:
    """The smallest plans that work where this one does not, the cheapest first."""
    demand = replace(plan.demand, drafter=plan.choice.proposed)
    entry, placement = plan.entry, plan.placement
    found = [
        *_more_gpus(demand, entry, placement.num_gpus),
        *_fewer_bits(demand, entry, placement.num_gpus),
        *_other_machine(demand, machines, ""),
    ]
    return sorted(found, key=lambda one: one.usd_per_hour)[:_MAX_REMEDIES]


def remedies_anywhere(demand: Demand, machines: Sequence[HardwareEntry]) -> list[Remedy]:
    """The same where no machine of the catalogue holds the model: with fewer bits."""
    found = list[Remedy]()
    for scheme, other in _converted(demand):
        found += _other_machine(other, machines, f" --quantization {scheme}")
    return sorted(found, key=lambda one: one.usd_per_hour)[:_MAX_REMEDIES]


def largest_machine(demand: Demand, machines: Iterable[HardwareEntry]) -> Plan | None:
    """The plan on the machine on which least is missing; None where none computes the format."""
    plans = list[Plan]()
    for entry in machines:
        try:
            plans.append(make_plan(demand, entry, entry.offers[-1].num_gpus, None))
        except PlanError:
            continue
    return min(plans, key=lambda plan: plan.missing_bytes, default=None)


def missing_sentence(candidate: Candidate) -> str:
    """What one request of the stated length lacks; empty where it fits."""
    if candidate.fits:
        return ""
    tokens = candidate.demand.load.context_tokens
    if candidate.missing_bytes:
        missing = f"{candidate.missing_bytes / _GIB:.1f} GiB more on each GPU"
        return f"{missing} for one request of {tokens} tokens"
    longest = candidate.limits.max_model_len
    return (
        f"a KV cache that holds one request of --max-model-len {longest}, without which vLLM does "
        "not start"
    )


def _more_gpus(demand: Demand, entry: HardwareEntry, num_gpus: int) -> Iterator[Remedy]:
    for size in range(num_gpus + 1, entry.hardware.gpus_per_machine + 1):
        plan = _or_none(demand, entry, size)
        if plan is not None:
            yield Remedy(f"--gpu {entry.hardware.name} --num-gpus {size}", plan)
            return


def _fewer_bits(demand: Demand, entry: HardwareEntry, num_gpus: int) -> Iterator[Remedy]:
    for scheme, other in _converted(demand):
        if why_refused(entry, scheme):
            continue
        plan = _or_none(other, entry, num_gpus)
        if plan is not None:
            options = f"--gpu {entry.hardware.name} --num-gpus {num_gpus} --quantization {scheme}"
            yield Remedy(options, plan)
            return


def _other_machine(
    demand: Demand, machines: Iterable[HardwareEntry], options: str
) -> Iterator[Remedy]:
    one = replace(demand.load, concurrency=demand.load.concurrency or 1)
    try:
        plan = choose_hardware(replace(demand, load=one), machines)
    except NothingFits:
        return
    hardware = plan.entry.hardware
    full = _or_none(demand, plan.entry, plan.placement.num_gpus)
    if full is not None:
        where = f"--gpu {hardware.name} --num-gpus {plan.placement.num_gpus}"
        yield Remedy(where + options, full)


def _converted(demand: Demand) -> Iterator[tuple[str, Demand]]:
    model = demand.model
    if model.weight_format.is_quantized:
        return
    for scheme in _SCHEMES:
        weights = named_format(scheme, model.weight_format.dtype)
        other = replace(model, weight_format=weights, converted_to=scheme)
        yield scheme, replace(demand, model=other, costs=None)


def _or_none(demand: Demand, entry: HardwareEntry, num_gpus: int) -> Plan | None:
    try:
        plan = make_plan(demand, entry, num_gpus, None)
    except PlanError:
        return None
    return plan if plan.point is not None else None
