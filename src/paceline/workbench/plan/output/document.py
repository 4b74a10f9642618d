"""A plan as a JSON document; docs/plan.md describes every key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import paceline
from paceline.foundation.capacity.model.kv_layout import kv_bytes_per_token, kv_layers
from paceline.foundation.capacity.model.weights import num_params, weight_bytes
from paceline.foundation.capacity.speculation import best_length
from paceline.foundation.planning.decisions.acceptance_bills import AcceptanceBill
from paceline.foundation.planning.decisions.advice import Advice
from paceline.foundation.planning.decisions.candidate import Candidate
from paceline.foundation.planning.decisions.fleet import DEFAULT_MAX_WAIT_S, MAX_LOAD
from paceline.foundation.planning.decisions.performance import BatchPerformance
from paceline.foundation.planning.decisions.planner import Plan
from paceline.foundation.planning.launch_files import render_paceline_yaml, vllm_args
from paceline.foundation.planning.values import PlannedModel

SCHEMA_VERSION = 1


def plan_document(
    plan: Plan,
    advice: Sequence[Advice],
    alternatives: Mapping[str, Plan],
    bills: Sequence[AcceptanceBill],
) -> dict[str, Any]:
    """Return the document of a plan."""
    fleet = plan.fleet
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "plan",
        "paceline": paceline.__version__,
        "fits": plan.fits,
        "missing_bytes_per_gpu": plan.missing_bytes,
        "model": _model(plan.demand.model),
        "weights_bytes": weight_bytes(
            plan.demand.model.shape, plan.demand.model.weight_format
        ).total,
        "kv_bytes_per_token": _kv_bytes(plan.demand.model, plan),
        "draft": _draft(plan),
        "max_concurrent_requests": max(0, plan.max_requests) * plan.placement.num_replicas,
        "hardware": _hardware(plan),
        "memory": _memory(plan),
        "kv_cache": _kv_cache(plan),
        "load": {
            "prompt_tokens": plan.demand.load.prompt_tokens,
            "output_tokens": plan.demand.load.output_tokens,
            "requests_per_day": plan.demand.load.requests_per_day,
            "peak_factor": plan.demand.load.peak_factor,
            "slo_ttft_ms": plan.demand.slo.ttft_ms,
            "slo_tpot_ms": plan.demand.slo.tpot_ms,
            "slo_percentile": 100 * plan.demand.slo.quantile,
        },
        "operating_point": None if plan.point is None else _performance(plan.point),
        "performance": [_performance(row) for row in plan.table],
        "speculation": _speculation(plan),
        "fleet": None
        if fleet is None
        else {
            "regions": fleet.regions,
            "replicas_per_region": fleet.replicas_per_region,
            "replicas": fleet.replicas,
            "gpus": fleet.gpus,
            "rented_machines": None if fleet.rental is None else fleet.rental.num_machines,
            "rented_gpus": None if fleet.rental is None else fleet.rental.num_gpus,
            "load_fraction": fleet.load_fraction,
            "slot_wait_s": fleet.slot_wait_s,
            "prompt_wait_s": fleet.prompt_wait_s,
            "ttft_s": peak_ttft_s(plan),
        },
        "cost": _cost(plan),
        "candidates": [
            _candidate("without drafts", plan.choice.without),
            *(
                [_candidate("with drafts", plan.choice.with_drafts)]
                if plan.choice.with_drafts is not None
                else []
            ),
        ],
        "machines": [_machine(one) for one in plan.machines],
        "acceptance_bills": [asdict(bill) for bill in bills],
        "advice": [
            {"topic": item.topic, "choice": item.choice, "reason": item.reason} for item in advice
        ],
        "alternatives": [_alternative(name, other) for name, other in alternatives.items()],
        "assumptions": assumptions(plan),
        "launch": _launch(plan),
    }


def _launch(plan: Plan) -> dict[str, Any] | None:
    """None where no engine would start, or none would meet the SLO."""
    if plan.point is None:
        return None
    trial = plan.choice.trial
    return {
        "paceline_yaml": render_paceline_yaml(plan),
        "vllm_args": vllm_args(plan),
        "vllm_args_to_measure_the_acceptance": None if trial is None else vllm_args(trial),
    }


def assumptions(plan: Plan) -> list[str]:
    """Return what the figures rest on, one sentence each."""
    hardware = plan.entry.hardware
    lines = [
        f"hardware: {plan.entry.source}",
        f"price: {plan.price_source}",
        f"{hardware.bandwidth_fraction:.3g} of the memory bandwidth and "
        f"{hardware.flops_fraction:.3g} of the arithmetic are reached",
        "every request has the stated prompt and answer; without prefix caching",
    ]
    if plan.point is not None:
        lines.append(
            "waits for prompts: requests arrive at random (Poisson) and are spread at random over "
            "the replicas; a step computes the prompts that wait when it begins, as far as "
            "max_num_batched_tokens allows, beside the decodes. Prompts take "
            f"{plan.point.prefill_fraction:.0%} of a replica's time when its slots are in use"
        )
    proposed = plan.choice.proposed
    if proposed.kind != "none":
        known = proposed.acceptance
        value = "" if known is None else f" {known.expected.per_token:g}:"
        lines.append(f"acceptance{value} {proposed.acceptance_source}")
    if plan.entry.calibration is not None:
        measured = plan.entry.calibration
        lines.append(
            f"calibrated: steps of 1 and {measured.num_requests} requests took "
            f"{measured.one_s * 1e3:.1f} and {measured.many_s * 1e3:.1f} ms, where the catalogue "
            f"predicts {measured.predicted_one_s * 1e3:.1f} and "
            f"{measured.predicted_many_s * 1e3:.1f}"
        )
    if plan.demand.costs is not None:
        costs = plan.demand.costs
        lines.append(
            f"steps: measured on {costs.measured_on} by an engine with this model on this machine, "
            f"up to {costs.table.sizes[-1]} requests and {costs.table.lengths[-1]} draft tokens; "
            "prompts by the catalogue at that pace"
        )
    if not hardware.is_cpu:
        lines.append("activations, CUDA graphs and runtime memory are allowances, not measured")
    if plan.demand.load.requests_per_day is not None:
        lines.append(
            f"replicas by the M/M/c queue: {plan.demand.slo.percentile} % of the requests wait for "
            "a slot at most "
            f"{'what the SLO leaves' if plan.demand.slo.ttft_ms else f'{DEFAULT_MAX_WAIT_S:g} s'}, "
            f"load at most {MAX_LOAD:.0%} at {plan.demand.load.peak_factor:g} times the mean rate"
        )
    return lines


def peak_ttft_s(plan: Plan) -> float | None:
    """Return the time to first token at the peak: prompt and both waits; None without a load.

    The sum of two percentiles is on the safe side of the percentile of the sum.
    """
    fleet = plan.fleet
    if fleet is None or fleet.slot_wait_s is None or fleet.prompt_wait_s is None:
        return None
    assert plan.point is not None
    return plan.point.prefill_s + fleet.slot_wait_s + fleet.prompt_wait_s


def _model(model: PlannedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "source": model.source,
        "architecture": model.shape.architecture,
        "num_params": num_params(model.shape),
        "dtype": model.weight_format.dtype,
        "quantization": model.weight_format.name if model.weight_format.is_quantized else None,
        "checkpoint_bytes": model.checkpoint_bytes,
        "max_context_tokens": model.shape.max_context_tokens,
    }


def _kv_bytes(model: PlannedModel, plan: Plan) -> int:
    return kv_bytes_per_token(kv_layers(model.shape, plan.limits.kv_dtype))


def _draft(plan: Plan) -> dict[str, Any]:
    drafter, choice = plan.choice.proposed, plan.choice
    known = drafter.acceptance
    document: dict[str, Any] = {
        "kind": drafter.kind,
        "is_planned": choice.speculates,
        "name": None,
        "weights_bytes": 0,
        "kv_bytes_per_token": 0,
        "reason": drafter.why,
        "acceptance": {
            "per_token": None if known is None else known.expected.per_token,
            "low": None if known is None else known.low.per_token,
            "high": None if known is None else known.high.per_token,
            "proposed_fraction": None if known is None else known.expected.proposed_fraction,
            "source": drafter.acceptance_source,
            "break_even": choice.break_even,
            "break_even_alone": choice.break_even_alone,
        },
    }
    if drafter.model is not None:
        document |= {
            "name": drafter.model.name,
            "weights_bytes": weight_bytes(drafter.model.shape, drafter.model.weight_format).total,
            "kv_bytes_per_token": _kv_bytes(drafter.model, plan),
        }
    return document


def _hardware(plan: Plan) -> dict[str, Any]:
    hardware, offer = plan.entry.hardware, plan.offer
    return {
        "name": hardware.name,
        "num_gpus": plan.placement.num_gpus,
        "tensor_parallel": plan.placement.tensor_parallel,
        "replicas": plan.placement.num_replicas,
        "memory_bytes": hardware.memory_bytes,
        "usd_per_hour": None if offer is None else offer.usd_per_hour / offer.num_gpus,
        "rented_machine": None if offer is None else asdict(offer),
        "source": plan.entry.source,
        "price_source": plan.price_source,
        "calibration": None if plan.entry.calibration is None else asdict(plan.entry.calibration),
        "step_costs": _step_costs(plan),
    }


def _step_costs(plan: Plan) -> dict[str, Any] | None:
    """The table that decode steps are priced by; None without one."""
    costs = plan.demand.costs
    if costs is None:
        return None
    return {
        "measured_on": costs.measured_on,
        "max_requests": costs.table.sizes[-1],
        "max_draft_length": costs.table.lengths[-1],
    }


def _memory(plan: Plan) -> dict[str, Any]:
    budget, weights = plan.memory.budget, plan.memory.weights
    return {
        "per_gpu": {
            "total_bytes": budget.total,
            "utilization": budget.utilization,
            "weights_bytes": budget.weights,
            "draft_weights_bytes": budget.draft_weights,
            "activations_bytes": budget.activations,
            "graphs_bytes": budget.graphs,
            "runtime_bytes": budget.runtime,
            "kv_cache_bytes": plan.memory.kv_cache_bytes,
        },
        "weights_by_use": {
            "attention_bytes": weights.attention,
            "feed_forward_bytes": weights.feed_forward,
            "experts_bytes": weights.experts,
            "embeddings_bytes": weights.embeddings,
            "norms_bytes": weights.norms,
            "buffers_bytes": weights.buffers,
        },
    }


def _kv_cache(plan: Plan) -> dict[str, Any]:
    memory, limits = plan.memory, plan.limits
    tokens, concurrency = memory.layout.logged_tokens(
        memory.kv_cache_bytes, limits.max_model_len, memory.tokens_in_flight
    )
    return {
        "dtype": limits.kv_dtype,
        "bytes_per_token_per_gpu": kv_bytes_per_token(memory.target_layers),
        "draft_bytes_per_token_per_gpu": kv_bytes_per_token(memory.draft_layers),
        "bytes_per_block": memory.layout.bytes_per_block,
        "num_blocks": memory.layout.num_blocks(memory.kv_cache_bytes),
        "max_model_len": limits.max_model_len,
        "tokens": tokens,
        "max_concurrency_at_max_model_len": concurrency,
        "requests_by_memory": memory.max_requests(plan.demand.load.context_tokens),
        "max_num_seqs": limits.max_num_seqs,
    }


def _performance(row: BatchPerformance) -> dict[str, Any]:
    return {
        "num_requests": row.num_requests,
        "draft_length": row.draft_length,
        "speculation_gain": row.speculation_gain,
        "step_ms": row.step_s * 1e3,
        "ttft_ms": row.ttft_s * 1e3 if math.isfinite(row.ttft_s) else None,
        "prefill_ms": row.prefill_s * 1e3,
        "prompt_wait_ms": row.prompt_wait_s * 1e3 if math.isfinite(row.prompt_wait_s) else None,
        "prefill_fraction": row.prefill_fraction,
        "tpot_ms": row.tpot_s * 1e3,
        "output_tokens_per_s": row.output_tokens_per_s,
        "requests_per_s": row.requests_per_s,
    }


def _speculation(plan: Plan) -> dict[str, Any]:
    best = best_length(plan.speculation)
    return {
        "num_requests": 1 if plan.point is None else plan.point.num_requests,
        "best_draft_length": best.draft_length,
        "gain": best.gain,
        "gain_low": best_length(plan.speculation_low).gain,
        "gain_high": best_length(plan.speculation_high).gain,
        "draft_lengths": [
            {
                "draft_length": row.draft_length,
                "tokens_per_step": row.tokens_per_step,
                "step_ms": row.step_s * 1e3,
                "decode_tokens_per_s": row.tokens_per_s,
                "gain": row.gain,
            }
            for row in plan.speculation
        ],
    }


def _cost(plan: Plan) -> dict[str, Any]:
    fleet = plan.fleet
    if fleet is None:
        return {"usd_per_million_output_tokens": None, "usd_per_month": None, "payback": None}
    payback = fleet.payback
    return {
        "usd_per_million_output_tokens": fleet.usd_per_million_output_tokens,
        "usd_per_million_output_tokens_at_full_load": (
            fleet.usd_per_million_output_tokens_at_full_load
        ),
        "usd_per_hour": fleet.usd_per_hour,
        "usd_per_month": fleet.usd_per_month,
        "payback": None
        if payback is None
        else {
            "present_usd_per_month": payback.present_usd_per_month,
            "saved_usd_per_month": payback.saved_usd_per_month,
            "one_time_usd": payback.one_time_usd,
            "months": payback.months,
        },
    }


def _candidate(name: str, candidate: Candidate) -> dict[str, Any]:
    point, fleet = candidate.point, candidate.fleet
    return {
        "name": name,
        "draft": None if candidate.drafter.kind == "none" else candidate.drafter.label,
        "tensor_parallel": candidate.placement.tensor_parallel,
        "max_concurrent_requests": max(0, candidate.max_requests) * candidate.num_replicas,
        "num_requests": None if point is None else point.num_requests,
        "draft_length": None if point is None else point.draft_length,
        "tpot_ms": None if point is None else point.tpot_s * 1e3,
        "output_tokens_per_s": None if point is None else candidate.total_tokens_per_s,
        "gpus": None if fleet is None else fleet.gpus,
        "usd_per_month": None if fleet is None else fleet.usd_per_month,
    }


def _machine(candidate: Candidate) -> dict[str, Any]:
    offer, point, fleet = candidate.offer, candidate.point, candidate.fleet
    assert offer is not None
    assert point is not None
    assert fleet is not None
    return {
        "name": candidate.entry.hardware.name,
        "num_gpus": offer.num_gpus,
        "tensor_parallel": candidate.placement.tensor_parallel,
        "num_machines": None if fleet.rental is None else fleet.rental.num_machines,
        "usd_per_hour": fleet.usd_per_hour,
        "usd_per_month": fleet.usd_per_month,
        "requests_at_once": point.num_requests * candidate.num_replicas,
        "output_tokens_per_s": candidate.total_tokens_per_s,
        "usd_per_million_output_tokens": fleet.usd_per_million_output_tokens,
        "price_source": offer.source,
    }


def _alternative(name: str, other: Plan) -> dict[str, Any]:
    point, fleet = other.point, other.fleet
    return {
        "quantization": name,
        "fits": other.fits,
        "weights_bytes": weight_bytes(
            other.demand.model.shape, other.demand.model.weight_format
        ).total,
        "max_concurrent_requests": max(0, other.max_requests) * other.placement.num_replicas,
        "output_tokens_per_s": None if point is None else point.output_tokens_per_s,
        "usd_per_million_output_tokens": (
            None if fleet is None else fleet.usd_per_million_output_tokens
        ),
    }
