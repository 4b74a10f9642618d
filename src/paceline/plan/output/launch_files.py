"""The files to start from: a `paceline.yaml` and the arguments of `vllm serve`."""

from __future__ import annotations

import json
import shlex
from typing import Any

from paceline.plan.decisions.planner import Plan


def vllm_args(plan: Plan) -> list[str]:
    """Return the arguments of `vllm serve MODEL` for one replica, MODEL first."""
    return [plan.demand.model.served_name, *_engine_args(plan), *_speculation_args(plan)]


def render_vllm_command(plan: Plan) -> str:
    """Return the command line of one replica."""
    return shlex.join(["vllm", "serve", *vllm_args(plan)])


def render_paceline_yaml(plan: Plan) -> str:
    """Return a `paceline.yaml` for one machine; `paceline serve --config FILE` reads it."""
    machine = plan.entry.hardware.gpus_per_machine if plan.offer is None else plan.offer.num_gpus
    replicas = min(plan.placement.num_replicas, max(1, machine // plan.placement.tensor_parallel))
    drafter = plan.demand.drafter
    engine: dict[str, Any] = {
        "model": plan.demand.model.served_name,
        "draft": drafter.kind if drafter.model is None else drafter.model.name,
        "draft_length_max": plan.limits.max_draft_length,
        "replicas": replicas,
        "dtype": plan.demand.model.weight_format.dtype,
        "max_model_len": plan.limits.max_model_len,
    }
    if plan.limits.kv_dtype == "fp8":
        engine["kv_cache_dtype"] = "fp8"
    if plan.entry.hardware.is_cpu:
        engine["kv_cache_bytes"] = plan.memory.kv_cache_bytes
    else:
        engine["vllm_args"] = _own_args(plan)
    document: dict[str, Any] = {"engine": engine}
    if plan.demand.slo.tpot_ms is not None:
        document["slo"] = {"time_per_output_token_ms": plan.demand.slo.tpot_ms}
    if plan.point is not None:
        document["admission"] = {"max_in_flight": plan.point.num_requests * replicas}
    hardware = f"{plan.placement.num_gpus} x {plan.entry.hardware.name}"
    lines = [f"# Written by `paceline plan` for {plan.demand.model.name} on {hardware}."]
    if plan.demand.model.conversion is not None:
        lines.append(f"# Write the quantized model first: {plan.demand.model.conversion}")
    for section, values in document.items():
        lines.append(f"{section}:")
        # A JSON value is a YAML value.
        lines += [f"  {name}: {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _engine_args(plan: Plan) -> list[str]:
    args = [
        "--dtype",
        plan.demand.model.weight_format.dtype,
        "--max-model-len",
        str(plan.limits.max_model_len),
    ]
    if plan.limits.kv_dtype == "fp8":
        args += ["--kv-cache-dtype", "fp8"]
    if plan.entry.hardware.is_cpu:
        return [*args, "--kv-cache-memory-bytes", str(plan.memory.kv_cache_bytes)]
    return [*args, *_own_args(plan)]


def _own_args(plan: Plan) -> list[str]:
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


def _speculation_args(plan: Plan) -> list[str]:
    drafter = plan.demand.drafter
    if drafter.kind == "none":
        return []
    config: dict[str, Any] = {"num_speculative_tokens": plan.limits.max_draft_length}
    if drafter.model is not None:
        is_head = drafter.model.shape.num_read_states > 0
        method = "eagle3" if is_head else "draft_model"
        config = {"method": method, "model": drafter.model.name, **config}
        # vLLM refuses a draft model that embeds another number of tokens, unless it maps the ids,
        # and then drafts greedily.
        if is_head or drafter.model.shape.vocab_size == plan.demand.model.shape.vocab_size:
            config["draft_sample_method"] = "probabilistic"
        else:
            config["use_heterogeneous_vocab"] = True
    elif drafter.kind == "ngram" and not plan.entry.hardware.is_cpu:
        # With "ngram" vLLM switches asynchronous scheduling off.
        config = {"method": "ngram_gpu", **config}
    else:
        config = {"method": drafter.kind, **config}
    return [
        "--speculative-config",
        json.dumps(config),
        "--scheduler-cls",
        "paceline.engine.AdaptiveScheduler",
    ]
