"""Size the pools of a deployment with the planner: engine settings, slots, speed and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from paceline.foundation.capacity.cost import monthly_usd, usd_per_million_tokens
from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.planning.decisions.candidate import (
    Candidate,
    Demand,
    plan_candidate,
    with_drafter,
)
from paceline.foundation.planning.decisions.choice import DrafterChoice, with_break_even
from paceline.foundation.planning.decisions.fleet import Bill
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.decisions.planner import make_plan
from paceline.foundation.planning.decisions.rental import Rental, rent
from paceline.foundation.planning.launch_files import render_paceline_yaml, vllm_args
from paceline.foundation.planning.sources.catalogue import Catalogue
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.foundation.planning.values import (
    EngineLimits,
    HardwareEntry,
    Load,
    Placement,
    PlannedModel,
    Slo,
    no_drafter,
)
from paceline.operations.deploy.other_servers import TRTLLM_SETTINGS, triton_engine, trtllm_args
from paceline.operations.deploy.values import DeployError, Pool, ServerName

AUTO = "auto"
_TENSOR_PARALLEL = "--tensor-parallel-size"
_MODEL_FOLDER = "/models"


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """A pool as the command line describes it."""

    name: str
    model: str
    draft: str
    served_name: str
    tensor_parallel: int
    nodes_per_replica: int
    min_replicas: int
    max_replicas: int
    max_model_len: int | None
    load: Load
    acceptance: float | None = None
    """Of a draft token; None where it is unknown."""
    server: ServerName = "vllm"
    image: str | None = None


@dataclass(frozen=True, slots=True)
class SizedPool:
    """A pool, with what one replica of it can do."""

    pool: Pool
    output_tokens_per_s: float
    """Of one replica with its slots in use."""
    drafts: DraftNote | None = None
    """None without a drafter."""


@dataclass(frozen=True, slots=True)
class DraftNote:
    """What a pool's drafter costs, and from which acceptance it pays."""

    name: str
    slots_without: int
    output_tokens_per_s_without: float
    acceptance: float | None
    """None: unknown, so the pool's rate counts no gain."""
    break_even: float | None
    """None: at no acceptance, with every slot in use."""
    break_even_alone: float | None
    """The same with one request at a time."""


def size_pool(
    request: PoolRequest, catalogue: Catalogue, entry: HardwareEntry, *, on_claim: bool
) -> SizedPool:
    """Plan one replica. Raises `DeployError` or `PlanError`."""
    if entry.hardware.is_cpu:
        raise DeployError("--gpu cpu: manifests are for GPU nodes; docs/how-to/deploy.md has more")
    size = request.tensor_parallel * request.nodes_per_replica
    if request.tensor_parallel > entry.hardware.gpus_per_machine:
        raise DeployError(
            f"--tensor-parallel {request.tensor_parallel} exceeds the "
            f"{entry.hardware.gpus_per_machine} GPUs of a machine with {entry.hardware.name}; "
            "spread a replica with --nodes-per-replica"
        )
    placement = Placement(entry.hardware, size, size)
    plan = _planned(request, catalogue, entry, placement)
    if plan.point is None:
        raise DeployError(
            f"{request.model} does not fit on {size} x {entry.hardware.name}: set "
            "--tensor-parallel, --gpu or --max-model-len (paceline plan shows what is missing)"
        )
    served = _at_pod_paths(plan, on_claim)
    return SizedPool(
        pool=Pool(
            name=request.name,
            model=served.demand.model.name,
            served_name=request.served_name,
            server_args=_args(served, request),
            engine_settings=_engine_settings(served, request),
            weights_bytes=plan.memory.weights.total * size
            + plan.memory.budget.draft_weights * size,
            slots=plan.point.num_requests,
            gpus=request.tensor_parallel,
            min_replicas=request.min_replicas,
            max_replicas=request.max_replicas,
            nodes_per_replica=request.nodes_per_replica,
            server=request.server,
            image=request.image,
        ),
        output_tokens_per_s=plan.point.output_tokens_per_s,
        drafts=_draft_note(plan.demand, entry, placement),
    )


def _planned(
    request: PoolRequest, catalogue: Catalogue, entry: HardwareEntry, placement: Placement
) -> Candidate:
    """The replica with its drafter: a draft model of the table only where it wins."""
    if request.draft != AUTO:
        return plan_candidate(_demand(request, catalogue, entry), entry, placement)
    if request.acceptance is not None:
        size = placement.num_gpus
        plan = make_plan(_demand(request, catalogue, entry), entry, size, size)
        if plan.choice.speculates:
            return plan
    lookup = replace(request, draft="ngram", acceptance=None)
    return plan_candidate(_demand(lookup, catalogue, entry), entry, placement)


def _draft_note(demand: Demand, entry: HardwareEntry, placement: Placement) -> DraftNote | None:
    if demand.drafter.kind == "none":
        return None
    without = plan_candidate(with_drafter(demand, no_drafter()), entry, placement)
    choice = with_break_even(DrafterChoice(demand.drafter, without, None))
    if without.point is None:
        return None
    known = demand.drafter.acceptance
    return DraftNote(
        name=demand.drafter.label,
        slots_without=without.point.num_requests,
        output_tokens_per_s_without=without.point.output_tokens_per_s,
        acceptance=None if known is None else known.expected.per_token,
        break_even=choice.break_even,
        break_even_alone=choice.break_even_alone,
    )


def figures(entry: HardwareEntry, sized: tuple[SizedPool, ...]) -> dict[str, Any]:
    """Capacity and cost, for the summary."""
    least = _rent(entry, [(one.pool, one.pool.min_replicas) for one in sized])
    most = _rent(entry, [(one.pool, one.pool.max_replicas) for one in sized])
    per_hour = None if least is None else sum(one.usd_per_hour for one in least)
    at_most = None if most is None else sum(one.usd_per_hour for one in most)
    tokens_per_s = sum(one.output_tokens_per_s * one.pool.min_replicas for one in sized)
    per_million = None if per_hour is None else usd_per_million_tokens(per_hour, tokens_per_s)
    return {
        "gpu": entry.hardware.name,
        "gpus": sum(_gpus(one.pool, one.pool.min_replicas) for one in sized),
        "gpus_at_most": sum(_gpus(one.pool, one.pool.max_replicas) for one in sized),
        "pools": [
            {
                "name": one.pool.name,
                "model": one.pool.model,
                "served_name": one.pool.served_name,
                "gpus_per_replica": _gpus(one.pool, 1),
                "min_replicas": one.pool.min_replicas,
                "max_replicas": one.pool.max_replicas,
                "slots_per_replica": one.pool.slots,
                "output_tokens_per_s_per_replica": round(one.output_tokens_per_s, 1),
                "drafts": None if one.drafts is None else _note(one.drafts),
            }
            for one in sized
        ],
        "cost": {
            "usd_per_month": _rounded(None if per_hour is None else monthly_usd(per_hour)),
            "usd_per_month_at_most": _rounded(None if at_most is None else monthly_usd(at_most)),
            "usd_per_million_output_tokens_at_full_load": _rounded(per_million),
            "price_source": least[0].offer.source if least else entry.price_source,
        },
    }


def _note(drafts: DraftNote) -> dict[str, Any]:
    rate = round(drafts.output_tokens_per_s_without, 1)
    return asdict(drafts) | {
        "output_tokens_per_s_without": rate,
        "break_even": _rounded(drafts.break_even),
        "break_even_alone": _rounded(drafts.break_even_alone),
    }


def _rent(entry: HardwareEntry, pools: Sequence[tuple[Pool, int]]) -> list[Rental] | None:
    """The machines for this many replicas of each pool; None without a known price.

    Pods of several pools share a machine: nothing keeps them apart. Only pods of different sizes
    are counted apart.
    """
    pods: Counter[int] = Counter()
    for pool, replicas in pools:
        pods[pool.gpus] += replicas * pool.nodes_per_replica
    nodes = [offer for offer in entry.offers if offer.is_node]
    rented = [rent(nodes, num, 1, gpus) for gpus, num in pods.items()]
    known = [one for one in rented if one is not None]
    return known if len(known) == len(rented) else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _gpus(pool: Pool, replicas: int) -> int:
    return replicas * pool.nodes_per_replica * pool.gpus


def _demand(request: PoolRequest, catalogue: Catalogue, entry: HardwareEntry) -> Demand:
    stored = find_model(request.model, catalogue)
    dtype = "bfloat16" if stored.shape.dtype == "float32" else stored.shape.dtype
    if dtype not in entry.hardware.flops_per_s:
        dtype = "float16"
    model = find_model(request.model, catalogue, dtype=dtype)
    settings = LimitSettings(max_model_len=request.max_model_len)

    def limits_for(hardware: Hardware) -> EngineLimits:
        return engine_limits(settings, hardware, model, request.load)

    drafter = choose_drafter(
        request.draft, model.name, catalogue, dtype=dtype, acceptance=request.acceptance
    )
    return Demand(
        model=model,
        drafter=drafter,
        load=request.load,
        slo=Slo(),
        bill=Bill(),
        limits_for=limits_for,
    )


def _at_pod_paths(plan: Candidate, on_claim: bool) -> Candidate:
    """The plan with the models as the pods name them. Raises `DeployError`."""
    demand = plan.demand
    model, drafter = _named(demand.model, on_claim), demand.drafter
    if drafter.model is not None:
        drafter = replace(drafter, model=_named(drafter.model, on_claim))
    return replace(plan, demand=replace(demand, model=model, drafter=drafter))


def _named(model: PlannedModel, on_claim: bool) -> PlannedModel:
    """On a claim a model is the folder with the last part of its name."""
    path = Path(model.name)
    if on_claim:
        folder = path.parent if path.name == "config.json" else path
        return replace(model, name=f"{_MODEL_FOLDER}/{folder.resolve().name}")
    if path.exists():
        raise DeployError(
            f"{model.name} is a folder on this machine, which no pod can load; copy it to a "
            "PersistentVolumeClaim and name that with --model-claim"
        )
    return model


def _args(plan: Candidate, request: PoolRequest) -> tuple[str, ...]:
    """Arguments after the model. The planner counts all GPUs of a replica as tensor-parallel."""
    if request.server == "triton":
        return ()
    if request.server == "trtllm":
        return trtllm_args(plan.limits, request.tensor_parallel)
    args = vllm_args(plan)[1:]
    args[args.index(_TENSOR_PARALLEL) + 1] = str(request.tensor_parallel)
    return tuple(args)


def _engine_settings(plan: Candidate, request: PoolRequest) -> Mapping[str, Any]:
    if request.server == "trtllm":
        return TRTLLM_SETTINGS
    if request.server == "triton":
        dtype = plan.demand.model.weight_format.dtype
        return triton_engine(plan.demand.model.name, dtype, plan.limits, request.tensor_parallel)
    document = yaml.safe_load(render_paceline_yaml(plan))
    engine: dict[str, Any] = document["engine"]
    return {**engine, "served_name": request.served_name, "replicas": 1}


def read_entry(catalogue: Catalogue, gpu: str, usd_per_hour: float | None) -> HardwareEntry:
    """The hardware of this name. Raises `PlanError`."""
    return catalogue.find(gpu, Machine(1, 0, frozenset()), usd_per_hour)
