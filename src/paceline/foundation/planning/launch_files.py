"""The files to start from: a `paceline.yaml` and the arguments of `vllm serve`."""

from __future__ import annotations

import json
import shlex
from typing import Any

from paceline.foundation.compatibility.speculative_config import (
    draft_model_config,
    eagle3_config,
    ngram_config,
    suffix_config,
    with_named_lengths,
)
from paceline.foundation.planning.decisions.candidate import Candidate
from paceline.foundation.planning.decisions.planner import Plan


def vllm_args(plan: Candidate) -> list[str]:
    """Return the arguments of `vllm serve MODEL` for one replica, MODEL first."""
    return [plan.demand.model.served_name, *_engine_args(plan), *_speculation_args(plan)]


def render_vllm_command(plan: Candidate) -> str:
    """Return the command line of one replica."""
    return shlex.join(["vllm", "serve", *vllm_args(plan)])


def render_paceline_yaml(plan: Candidate) -> str:
    """Return a `paceline.yaml` for one machine; `paceline serve --config FILE` reads it."""
    machine = plan.entry.hardware.gpus_per_machine if plan.offer is None else plan.offer.num_gpus
    replicas = min(plan.placement.num_replicas, max(1, machine // plan.placement.tensor_parallel))
    drafter = plan.demand.drafter
    engine: dict[str, Any] = {
        "model": plan.demand.model.served_name,
        "draft": drafter.label,
        **({} if drafter.kind == "none" else {"draft_length_max": plan.limits.max_draft_length}),
        "replicas": replicas,
        "dtype": plan.demand.model.weight_format.dtype,
        "max_model_len": plan.limits.max_model_len,
    }
    if plan.limits.kv_dtype == "fp8":
        engine["kv_cache_dtype"] = "fp8"
    if plan.entry.hardware.is_cpu:
        engine["kv_cache_bytes"] = plan.memory.kv_cache_bytes
    own = [] if plan.entry.hardware.is_cpu else _own_args(plan)
    if own or plan.demand.model.vllm_quantization:
        engine["vllm_args"] = [*_quantization_args(plan), *own]
    document: dict[str, Any] = {"engine": engine}
    if plan.point is not None:
        document["admission"] = {"max_in_flight": plan.point.num_requests * replicas}
    hardware = f"{plan.placement.num_gpus} x {plan.entry.hardware.name}"
    lines = [f"# Written by `paceline plan` for {plan.demand.model.name} on {hardware}."]
    if plan.demand.model.conversion is not None:
        lines.append(f"# Write the quantized model first: {plan.demand.model.conversion}")
    if drafter.model is not None and drafter.model.conversion is not None:
        lines.append(f"# Write the quantized draft first: {drafter.model.conversion}")
    lines += _comments(plan)
    for section, values in document.items():
        lines.append(f"{section}:")
        # A JSON value is a YAML value.
        lines += [f"  {name}: {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _engine_args(plan: Candidate) -> list[str]:
    args = [
        "--dtype",
        plan.demand.model.weight_format.dtype,
        "--max-model-len",
        str(plan.limits.max_model_len),
    ]
    if plan.limits.kv_dtype == "fp8":
        args += ["--kv-cache-dtype", "fp8"]
    args += _quantization_args(plan)
    if plan.entry.hardware.is_cpu:
        return [*args, "--kv-cache-memory-bytes", str(plan.memory.kv_cache_bytes)]
    return [*args, *_own_args(plan)]


def _quantization_args(plan: Candidate) -> list[str]:
    method = plan.demand.model.vllm_quantization
    return [] if method is None else ["--quantization", method]


def _own_args(plan: Candidate) -> list[str]:
    """Arguments on a GPU that `paceline.yaml` has no setting for."""
    limits = plan.limits
    return [
        "--tensor-parallel-size",
        str(plan.placement.tensor_parallel),
        "--gpu-memory-utilization",
        f"{limits.gpu_memory_utilization:g}",
        "--max-num-seqs",
        str(limits.max_num_seqs),
        "--max-num-batched-tokens",
        str(limits.max_batched_tokens),
    ]


def _speculation_args(plan: Candidate) -> list[str]:
    if plan.demand.drafter.kind == "none":
        return []
    config = _speculative_config(plan)
    if not plan.entry.hardware.is_cpu:
        config = with_named_lengths(config, max_num_seqs=plan.limits.max_num_seqs)
    return [
        "--speculative-config",
        json.dumps(config),
        "--scheduler-cls",
        "paceline.engine.AdaptiveScheduler",
    ]


def _speculative_config(plan: Candidate) -> dict[str, Any]:
    drafter, longest = plan.demand.drafter, plan.limits.max_draft_length
    if drafter.model is None:
        if drafter.kind == "suffix":
            return suffix_config(longest)
        return ngram_config(longest, on_gpu=not plan.entry.hardware.is_cpu)
    if drafter.model.shape.num_read_states > 0:
        return eagle3_config(drafter.label, longest)
    has_same_ids = drafter.model.shape.vocab_size == plan.demand.model.shape.vocab_size
    return draft_model_config(drafter.label, longest, has_same_ids=has_same_ids)


def _comments(plan: Candidate) -> list[str]:
    """What the file leaves out, and why."""
    lines = []
    if plan.demand.slo.tpot_ms is not None:
        lines.append(
            f"# --slo-tpot-ms {plan.demand.slo.tpot_ms:g} is a mean per token, and has no setting: "
            "slo.time_per_output_token_ms bounds the P99 between chunks, each of several tokens."
        )
    if isinstance(plan, Plan) and plan.choice.trial is not None:
        label = plan.choice.proposed.label
        lines.append(f"# To measure the acceptance, serve with: draft: {json.dumps(label)}")
    return lines
