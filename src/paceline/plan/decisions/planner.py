"""Make a plan: choose the parallelism, and the hardware where none is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from paceline.capacity.hardware import Hardware
from paceline.capacity.model.matrices import tensor_parallel_sizes
from paceline.capacity.speculation import Acceptance, DraftLengthGain
from paceline.capacity.step_time import StepTime
from paceline.plan.decisions.fleet import Bill, FleetPlan, plan_fleet
from paceline.plan.decisions.measured_steps import MeasuredStepTime
from paceline.plan.decisions.memory import MemoryPlan, plan_memory
from paceline.plan.decisions.performance import (
    BatchPerformance,
    batch_sizes,
    operating_point,
    performance_table,
    speculation_rows,
    step_time,
)
from paceline.plan.sources.engine_costs import EngineCosts
from paceline.plan.values import (
    NO_PRICE,
    Drafter,
    EngineLimits,
    HardwareEntry,
    Load,
    NothingFits,
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
class Plan:
    """The answer."""

    demand: Demand
    entry: HardwareEntry
    placement: Placement
    limits: EngineLimits
    memory: MemoryPlan
    point: BatchPerformance | None
    """The largest batch that meets the SLO; None where nothing does."""
    table: list[BatchPerformance]
    speculation: list[DraftLengthGain]
    """Every draft length at the operating point, 0 first."""
    speculation_low: list[DraftLengthGain]
    """The same at the low end of the expected acceptance."""
    speculation_high: list[DraftLengthGain]
    fleet: FleetPlan | None
    why_parallel: str

    @property
    def max_requests(self) -> int:
        """Requests at once on one replica, by memory and by max_num_seqs."""
        by_memory = self.memory.max_requests(self.demand.load.context_tokens)
        return min(by_memory, self.limits.max_num_seqs)

    @property
    def fits(self) -> bool:
        """Whether a request of the stated length fits beside the weights."""
        return self.max_requests >= 1

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
        size, sold = self.placement.tensor_parallel, self.entry.offers[-1].num_gpus
        if size <= sold:
            return "not needed: the plan does not run"
        return (
            f"unknown: a replica needs {size} GPUs of one machine, and the largest machine with a "
            f"known price has {sold}; set --usd-per-hour"
        )


def make_plan(
    demand: Demand, entry: HardwareEntry, num_gpus: int, tensor_parallel: int | None
) -> Plan:
    """Plan for `num_gpus` of one kind, split by `tensor_parallel` or by the best size.

    The best size is the one with the most output tokens per second on these GPUs within the SLO.
    Raises `PlanError` for a size that is not allowed.
    """
    if tensor_parallel is not None:
        if num_gpus % tensor_parallel:
            raise PlanError(
                f"--num-gpus {num_gpus} is no multiple of --tensor-parallel {tensor_parallel}"
            )
        plan = _plan_at(
            demand, entry, Placement(entry.hardware, num_gpus, tensor_parallel), "as given"
        )
        return plan
    most = min(num_gpus, entry.hardware.gpus_per_machine)
    allowed = _allowed_sizes(demand)
    sizes = [size for size in allowed if size <= most and num_gpus % size == 0]
    plans = [
        _plan_at(demand, entry, Placement(entry.hardware, num_gpus, size), "") for size in sizes
    ]
    fitting = [plan for plan in plans if plan.point is not None]
    if not fitting:
        return plans[-1]
    best = max(fitting, key=_total_tokens_per_s)
    return _with_reason(best, plans)


def step_times(demand: Demand, entry: HardwareEntry, tensor_parallel: int) -> StepTime:
    """Return the step times of one replica."""
    placement = Placement(entry.hardware, tensor_parallel, tensor_parallel)
    limits = demand.limits_for(entry.hardware)
    memory = plan_memory(demand.model, demand.drafter, placement, limits)
    return step_time(demand.model, demand.drafter, placement, memory)


def choose_hardware(demand: Demand, entries: Iterable[HardwareEntry]) -> Plan:
    """Return the plan with the cheapest output tokens over all machines that are sold.

    Raises `NothingFits` where the model fits on none of them, or misses the SLO.
    """
    best: Plan | None = None
    for entry in entries:
        for offer in entry.offers:
            plan = _or_none(demand, replace(entry, offers=(offer,)), offer.num_gpus)
            if plan is not None and (best is None or _price(plan) < _price(best)):
                best = plan
    if best is None:
        raise NothingFits(
            f"{demand.model.name} fits on no machine of the catalogue within the limits given; "
            "name a GPU with --gpu to see what is missing, plan fewer bits with --quantization, or "
            "a longer time with --slo-ttft-ms and --slo-tpot-ms"
        )
    return best


def _or_none(demand: Demand, entry: HardwareEntry, num_gpus: int) -> Plan | None:
    """Replicas on all of `num_gpus`, if they fit and meet the SLO."""
    try:
        plan = make_plan(demand, entry, num_gpus, None)
    except PlanError:
        return None  # A format that the hardware lacks.
    return plan if plan.fleet is not None else None


def _price(plan: Plan) -> float:
    assert plan.fleet is not None
    price = plan.fleet.usd_per_million_output_tokens
    return float("inf") if price is None else price


def _total_tokens_per_s(plan: Plan) -> float:
    assert plan.point is not None
    return plan.point.output_tokens_per_s * plan.placement.num_replicas


def _allowed_sizes(demand: Demand) -> list[int]:
    allowed = set(tensor_parallel_sizes(demand.model.shape))
    if demand.drafter.model is not None:
        allowed &= set(tensor_parallel_sizes(demand.drafter.model.shape))
    return sorted(allowed)


def _plan_at(demand: Demand, entry: HardwareEntry, placement: Placement, why: str) -> Plan:
    limits = demand.limits_for(entry.hardware)
    memory = plan_memory(demand.model, demand.drafter, placement, limits)
    times = step_time(demand.model, demand.drafter, placement, memory)
    if demand.costs is not None and demand.costs.tensor_parallel == placement.tensor_parallel:
        times = MeasuredStepTime(times.target, times.draft, demand.costs.table)
    largest = min(memory.max_requests(demand.load.context_tokens), limits.max_num_seqs)
    point = operating_point(times, demand.drafter, demand.load, limits, demand.slo, largest)
    sizes = batch_sizes(largest) if largest else []
    table = performance_table(
        times, demand.drafter, demand.load, limits, sizes, demand.slo.quantile
    )
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
    drafter = demand.drafter
    num_requests = 1 if point is None else point.num_requests

    def rows(acceptance: Acceptance) -> list[DraftLengthGain]:
        return speculation_rows(times, drafter, demand.load, limits, num_requests, acceptance)

    return Plan(
        demand=demand,
        entry=entry,
        placement=placement,
        limits=limits,
        memory=memory,
        point=point,
        table=table,
        speculation=rows(drafter.acceptance.expected),
        speculation_low=rows(drafter.acceptance.low),
        speculation_high=rows(drafter.acceptance.high),
        fleet=fleet,
        why_parallel=why,
    )


def _with_reason(best: Plan, plans: list[Plan]) -> Plan:
    size = best.placement.tensor_parallel
    parts = []
    for plan in plans:
        if plan.point is None:
            what = "does not fit" if not plan.fits else "misses the SLO"
        else:
            what = f"gives {_total_tokens_per_s(plan):,.0f} tokens/s"
        parts.append(f"size {plan.placement.tensor_parallel} {what}")
    return replace(best, why_parallel=f"{'; '.join(parts)}: {size} gives the most")
