"""One candidate, a drafter or none on given GPUs: its memory, speed, fleet and bill.

`plan_candidate` is a function from values to values. It judges nothing; `choice` compares
candidates, and `planner` says which ones there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.speculation import Acceptance, DraftLengthGain
from paceline.foundation.capacity.step_time import StepTime
from paceline.foundation.planning.decisions.fleet import Bill, FleetPlan, plan_fleet
from paceline.foundation.planning.decisions.limits import shorten_to_cache
from paceline.foundation.planning.decisions.measured_steps import MeasuredStepTime
from paceline.foundation.planning.decisions.memory import MemoryPlan, plan_memory
from paceline.foundation.planning.decisions.performance import (
    BatchPerformance,
    batch_sizes,
    operating_point,
    performance_table,
    speculation_rows,
    step_time,
)
from paceline.foundation.planning.sources.engine_costs import EngineCosts
from paceline.foundation.planning.values import (
    NO_PRICE,
    Drafter,
    EngineLimits,
    HardwareEntry,
    Load,
    Offer,
    Placement,
    PlanError,
    PlannedModel,
    Slo,
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything that a plan is made for, except the hardware."""

    model: PlannedModel
    drafter: Drafter
    load: Load
    slo: Slo
    bill: Bill
    limits_for: Callable[[Hardware], EngineLimits]
    """The engine's settings on a kind of hardware: some defaults depend on its memory."""
    costs: EngineCosts | None = None
    """What an engine with this model and drafter measured on this machine; None without one."""

    def __post_init__(self) -> None:
        shape = self.model.shape
        if shape.num_read_states:
            raise PlanError(f"MODEL {self.model.name} is an EAGLE-3 head, which is a drafter")
        drafter = self.drafter.model
        is_head = drafter is not None and drafter.shape.num_read_states > 0
        if drafter is not None and is_head and drafter.shape.hidden_size != shape.hidden_size:
            raise PlanError(
                f"--draft {drafter.name} is a head for a target of hidden size "
                f"{drafter.shape.hidden_size}, and {self.model.name} has {shape.hidden_size}"
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One drafter, or none, on given GPUs."""

    demand: Demand
    """With the candidate's drafter."""
    entry: HardwareEntry
    placement: Placement
    limits: EngineLimits
    memory: MemoryPlan
    point: BatchPerformance | None
    """The fastest batch that meets the SLO, nearly always the largest; None where nothing does."""
    table: list[BatchPerformance]
    speculation: list[DraftLengthGain]
    """Every draft length at the operating point, 0 first."""
    speculation_low: list[DraftLengthGain]
    """The same at the low end of the known acceptance."""
    speculation_high: list[DraftLengthGain]
    fleet: FleetPlan | None

    @property
    def drafter(self) -> Drafter:
        """The candidate's."""
        return self.demand.drafter

    @property
    def max_requests(self) -> int:
        """Requests at once on one replica, by memory and by max_num_seqs."""
        by_memory = self.memory.max_requests(self.demand.load.context_tokens)
        return min(by_memory, self.limits.max_num_seqs)

    @property
    def fits(self) -> bool:
        """Whether an engine starts, and a request of the stated length fits beside the weights."""
        return self.max_requests >= 1 and self.memory.holds_request_of(self.limits.max_model_len)

    @property
    def missing_bytes(self) -> int:
        """On each GPU, until one request of the stated length fits; 0 if it does."""
        needed = self.memory.bytes_per_request(self.demand.load.context_tokens)
        return max(0, needed - self.memory.free_bytes)

    @property
    def total_tokens_per_s(self) -> float:
        """Of all replicas on the GPUs given; 0 without an operating point."""
        return 0.0 if self.point is None else self.point.output_tokens_per_s * self.num_replicas

    @property
    def num_replicas(self) -> int:
        """On the GPUs given."""
        return self.placement.num_replicas

    @property
    def offer(self) -> Offer | None:
        """The machine that is rented; None without a known price, or where nothing runs."""
        if self.fleet is None or self.fleet.rental is None:
            return None
        return self.fleet.rental.offer

    @property
    def price_source(self) -> str:
        """Who sells the machine, or why no price is known."""
        if self.offer is not None:
            return self.offer.source
        if not self.entry.offers:
            return NO_PRICE
        size = self.placement.tensor_parallel
        sold = max(offer.num_gpus for offer in self.entry.offers)
        if size <= sold:
            return "not needed: the plan does not run"
        return (
            f"unknown: a replica needs {size} GPUs of one machine, and the largest machine with a "
            f"known price has {sold}; set --usd-per-gpu-hour"
        )


def plan_candidate(demand: Demand, entry: HardwareEntry, placement: Placement) -> Candidate:
    """Return the figures of the demand's drafter on these GPUs.

    Raises `PlanError` for a tensor-parallel size or a number format that is not possible.
    """
    limits = demand.limits_for(entry.hardware)
    memory = plan_memory(demand.model, demand.drafter, placement, limits)
    limits = shorten_to_cache(limits, memory, demand.load)
    times = step_time(demand.model, demand.drafter, placement, memory)
    if demand.costs is not None and demand.costs.tensor_parallel == placement.tensor_parallel:
        times = MeasuredStepTime(times.target, times.draft, demand.costs.table)
    largest = min(memory.max_requests(demand.load.context_tokens), limits.max_num_seqs)
    if not memory.holds_request_of(limits.max_model_len):
        largest = 0
    point = operating_point(times, demand.drafter, demand.load, limits, demand.slo, largest)
    sizes = batch_sizes(largest) if largest else []
    table = performance_table(
        times, demand.drafter, demand.load, limits, sizes, demand.slo.quantile
    )
    if point is not None and point.num_requests not in sizes:
        table = sorted([*table, point], key=lambda row: row.num_requests)
    fleet = None
    if point is not None:
        fleet = plan_fleet(
            point,
            demand.load,
            demand.slo,
            placement,
            demand.bill,
            offers=entry.offers,
            smaller_batches=[row for row in table if row.num_requests < point.num_requests],
        )
    num_requests = 1 if point is None else point.num_requests
    known = demand.drafter.acceptance

    def rows(acceptance: Acceptance | None) -> list[DraftLengthGain]:
        return speculation_rows(
            times, demand.drafter, demand.load, limits, num_requests, acceptance
        )

    return Candidate(
        demand=demand,
        entry=entry,
        placement=placement,
        limits=limits,
        memory=memory,
        point=point,
        table=table,
        speculation=rows(None),
        speculation_low=rows(None if known is None else known.low),
        speculation_high=rows(None if known is None else known.high),
        fleet=fleet,
    )


def step_times(demand: Demand, entry: HardwareEntry, tensor_parallel: int) -> StepTime:
    """Return the step times of one replica."""
    placement = Placement(entry.hardware, tensor_parallel, tensor_parallel)
    limits = demand.limits_for(entry.hardware)
    memory = plan_memory(demand.model, demand.drafter, placement, limits)
    return step_time(demand.model, demand.drafter, placement, memory)


def with_drafter(demand: Demand, drafter: Drafter) -> Demand:
    """The same demand for another drafter."""
    return replace(demand, drafter=drafter)
