"""Ask the planner what fits and how many good requests per second it expects of every cell.

A configuration that does not fit is dropped before it costs a server start. The predictions only
order what is tried: an uncalibrated plan is off by up to a quarter, and the search corrects it by
what it measures. Where the planner has no prediction (an architecture or hardware that it does not
know), every cell is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype
from paceline.foundation.named_models import NamedModelMissing, find_named
from paceline.foundation.planning.decisions.candidate import (
    Candidate,
    Demand,
    plan_candidate,
    step_times,
)
from paceline.foundation.planning.decisions.fleet import Bill
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.decisions.performance import (
    batch_performance,
    speculation_rows,
)
from paceline.foundation.planning.sources.catalogue import Catalogue, load_catalogue
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import Machine, read_machine
from paceline.foundation.planning.values import (
    AcceptanceRange,
    Drafter,
    EngineLimits,
    Load,
    Placement,
    PlanError,
    PlannedModel,
    Slo,
)
from paceline.runtime.config import Settings
from paceline.workbench.tune.configuration import argument
from paceline.workbench.tune.values import Cell, LiveSetting, RestartConfig

_MISS_FACTOR = 0.3
"""Of the requests, where the planner expects the SLO to be missed. It is not 0, because the
prediction may be wrong; chosen empirically."""
_ORDERING_ACCEPTANCE = {True: Acceptance(0.68), False: Acceptance(0.55, 0.35)}
"""Of draft models, and of lookups: assumed where it is unknown. It only orders what is tried."""
_GIB = 1024**3
_TENSOR_PARALLEL, _PIPELINE_PARALLEL = "--tensor-parallel-size", "--pipeline-parallel-size"


@dataclass(frozen=True, slots=True)
class Screening:
    """What is left of a grid, and what is expected of it."""

    settings: Mapping[RestartConfig, tuple[LiveSetting, ...]]
    predicted: Mapping[Cell, float] = field(default_factory=dict)
    """Good requests per second."""
    dropped: Mapping[RestartConfig, str] = field(default_factory=dict)
    """Configurations that do not fit, with the reason."""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ScreeningQuestion:
    """What the planner needs to know beside the configurations."""

    hardware: str
    """A name of the planner's catalogue."""
    load: Load
    slo: Slo


def screen(
    grid: Mapping[RestartConfig, tuple[LiveSetting, ...]],
    served: Mapping[RestartConfig, Settings],
    question: ScreeningQuestion,
) -> Screening:
    """Drop the configurations of the grid that do not fit, and predict the cells of the others.

    `served` holds the settings that each configuration serves with.
    """
    catalogue, machine = load_catalogue(), read_machine()
    kept: dict[RestartConfig, tuple[LiveSetting, ...]] = {}
    predicted: dict[Cell, float] = {}
    dropped: dict[RestartConfig, str] = {}
    notes: list[str] = []
    for restart, lives in grid.items():
        try:
            plan = _plan(served[restart], question, catalogue, machine)
        except PlanError as error:
            kept[restart] = lives
            notes.append(f"{restart.label}: the planner has no prediction: {error}")
            continue
        if not plan.fits:
            dropped[restart] = _misfit(plan)
            continue
        kept[restart] = lives
        replicas = max(1, served[restart].engine.replicas)
        predicted |= {Cell(restart, live): _predict(plan, live, replicas) for live in lives}
    return Screening(kept, predicted, dropped, tuple(dict.fromkeys(notes)))


def _plan(
    settings: Settings, question: ScreeningQuestion, catalogue: Catalogue, machine: Machine
) -> Candidate:
    engine = settings.engine
    entry = catalogue.find(question.hardware, machine, None)
    target, draft = engine.model, engine.draft
    try:
        named = find_named(target)
    except NamedModelMissing as missing:
        raise PlanError(str(missing)) from None
    if named is not None:
        target, draft = named.target, named.draft if draft == "auto" else draft
    dtype = None if engine.dtype == "auto" else engine.dtype
    if dtype is None and entry.hardware.is_cpu:
        dtype = choose_cpu_dtype(machine.cpu_flags)[0]
    model = find_model(target, catalogue, dtype=dtype)
    size = int(argument(engine.vllm_args, _TENSOR_PARALLEL) or 1)
    if argument(engine.vllm_args, _PIPELINE_PARALLEL) not in (None, "1"):
        raise PlanError("the planner does not model pipeline parallelism")
    if entry.hardware.is_cpu and engine.replicas > 1:
        # The replicas share the machine's cores and memory.
        share = 1 / engine.replicas
        hardware = replace(
            entry.hardware,
            memory_bytes=int(entry.hardware.memory_bytes * share),
            bandwidth_bytes_per_s=entry.hardware.bandwidth_bytes_per_s * share,
            flops_per_s={k: v * share for k, v in entry.hardware.flops_per_s.items()},
        )
        entry = replace(entry, hardware=hardware)
    demand = Demand(
        model=model,
        drafter=_assumed(choose_drafter(draft, target, catalogue, dtype=dtype, acceptance=None)),
        load=question.load,
        slo=Slo(),
        bill=Bill(),
        limits_for=lambda hardware: _limits(settings, hardware, model, question.load),
    )
    candidate = plan_candidate(demand, entry, Placement(entry.hardware, size, size))
    return replace(candidate, demand=replace(demand, slo=question.slo))


def _assumed(drafter: Drafter) -> Drafter:
    if drafter.kind == "none" or drafter.acceptance is not None:
        return drafter
    assumed = _ORDERING_ACCEPTANCE[drafter.model is not None]
    return replace(drafter, acceptance=AcceptanceRange(assumed, assumed, assumed))


def _limits(
    settings: Settings, hardware: Hardware, model: PlannedModel, load: Load
) -> EngineLimits:
    args = settings.engine.vllm_args
    kv_dtype = argument(args, "--kv-cache-dtype")
    return engine_limits(
        LimitSettings(
            gpu_memory_utilization=_number(argument(args, "--gpu-memory-utilization")),
            max_model_len=settings.engine.max_model_len,
            max_num_seqs=_whole(argument(args, "--max-num-seqs")),
            max_batched_tokens=_whole(argument(args, "--max-num-batched-tokens")),
            kv_dtype="fp8" if kv_dtype is not None and kv_dtype.startswith("fp8") else None,
            max_draft_length=settings.engine.draft_length_max,
            kv_cache_bytes=settings.engine.kv_cache_bytes,
        ),
        hardware,
        model,
        load,
    )


def _predict(plan: Candidate, live: LiveSetting, replicas: int) -> float:
    """Good requests per second of all replicas."""
    demand = plan.demand
    times = step_times(demand, plan.entry, plan.placement.tensor_parallel)
    wanted = max(1, -(-live.max_in_flight // replicas))
    running = min(wanted, plan.max_requests)
    point = batch_performance(times, demand.drafter, demand.load, plan.limits, running)
    rate = point.requests_per_s * replicas
    if live.draft_length is not None:
        rows = speculation_rows(times, demand.drafter, demand.load, plan.limits, running)
        by_length = {row.draft_length: row.tokens_per_s for row in rows}
        fastest = max(by_length.values())
        rate *= by_length.get(live.draft_length, fastest) / fastest
    waits = wanted > running  # then some requests wait for a place in the batch
    return rate if point.meets(demand.slo) and not waits else rate * _MISS_FACTOR


def _misfit(plan: Candidate) -> str:
    missing = -plan.memory.budget.kv_cache / _GIB
    need = f"{missing:.1f} GiB more" if missing > 0 else "more memory for the KV cache"
    return f"does not fit on {plan.entry.hardware.name}: each GPU or machine needs {need}"


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
