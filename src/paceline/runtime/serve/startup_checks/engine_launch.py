"""`EngineLaunch`: what the command line of an engine says, as far as the checks need it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.runtime.engine.launch.command import flags_of, last_value
from paceline.runtime.engine.launch.format_gate import DTYPE_ALIASES

VLLM_UTILIZATION = 0.92
"""vLLM 0.32's default of --gpu-memory-utilization (config/cache.py)."""

_UNPLANNED_FLAGS = frozenset(
    {
        *("--quantization", "-q", "--hf-overrides", "--cpu-offload-gb", "--offload-backend"),
        *("--offload-group-size", "--enable-expert-parallel", "-ep", "--block-size"),
        *("--pipeline-parallel-size", "-pp", "--decode-context-parallel-size", "-dcp"),
        *("--prefill-context-parallel-size", "-pcp", "--data-parallel-size", "-dp"),
        *("--config", "--load-format"),
    }
)
"""Flags after which the memory of an engine is not what `paceline plan` computes."""

_SIZE_FLAGS = (
    "--max-model-len", "--kv-cache-memory-bytes", "--max-num-seqs", "--max-num-batched-tokens",
)  # fmt: skip
"""vLLM also reads values such as 32k or auto; those are not computed either."""


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One engine. None and the empty string where the command line leaves it to vLLM."""

    model: str
    drafting: Mapping[str, Any]
    """The value of --speculative-config; empty without speculation, or if it is not JSON."""
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    kv_cache_bytes: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float = VLLM_UTILIZATION
    max_num_seqs: int | None = None
    max_batched_tokens: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    num_nodes: int = 1
    node_rank: int = 0
    master_address: str = ""
    is_headless: bool = False
    """Whether this node only computes, for an engine whose API server is on another one."""
    executor: str = ""
    data_parallel_backend: str = ""
    names_devices: bool = False
    """Whether --device-ids chooses the GPUs."""
    unplanned_flags: tuple[str, ...] = ()
    """Those that are given of the flags whose memory is not computed."""

    @property
    def num_devices(self) -> int:
        """GPUs, or worker processes on a CPU, of one replica of the model."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def uses_ray(self) -> bool:
        """Whether a flag asks for Ray."""
        return "ray" in (self.executor, self.data_parallel_backend)

    @property
    def draft_model(self) -> str | None:
        """Folder or name of the draft model; None for other drafters."""
        model = self.drafting.get("model")
        is_draft_model = self.drafting.get("method") == "draft_model"
        return model if is_draft_model and isinstance(model, str) else None


def read_launch(arguments: tuple[str, ...]) -> EngineLaunch:
    """Read the arguments of an engine, Paceline's and the user's; later ones win as in vLLM.

    A value that vLLM would refuse counts as not given: vLLM reports it.
    """
    dtype = last_value(arguments, "--dtype") or "auto"
    utilization = _fraction(last_value(arguments, "--gpu-memory-utilization"))
    return EngineLaunch(
        model=last_value(arguments, "--model") or "",
        drafting=_drafting(arguments),
        dtype=DTYPE_ALIASES.get(dtype, dtype),
        kv_cache_dtype=last_value(arguments, "--kv-cache-dtype") or "auto",
        kv_cache_bytes=_number(last_value(arguments, "--kv-cache-memory-bytes")),
        max_model_len=_number(last_value(arguments, "--max-model-len")),
        gpu_memory_utilization=VLLM_UTILIZATION if utilization is None else utilization,
        max_num_seqs=_number(last_value(arguments, "--max-num-seqs")),
        max_batched_tokens=_number(last_value(arguments, "--max-num-batched-tokens")),
        tensor_parallel=_number(last_value(arguments, "--tensor-parallel-size", "-tp")) or 1,
        pipeline_parallel=_number(last_value(arguments, "--pipeline-parallel-size", "-pp")) or 1,
        data_parallel=_number(last_value(arguments, "--data-parallel-size", "-dp")) or 1,
        num_nodes=_number(last_value(arguments, "--nnodes", "-n")) or 1,
        node_rank=_number(last_value(arguments, "--node-rank", "-r")) or 0,
        master_address=last_value(arguments, "--master-addr") or "",
        is_headless="--headless" in flags_of(arguments),
        executor=last_value(arguments, "--distributed-executor-backend") or "",
        data_parallel_backend=last_value(arguments, "--data-parallel-backend", "-dpb") or "",
        names_devices="--device-ids" in flags_of(arguments),
        unplanned_flags=(
            *(flag for flag in flags_of(arguments) if flag in _UNPLANNED_FLAGS),
            *(flag for flag in _SIZE_FLAGS if _is_unread(last_value(arguments, flag))),
        ),
    )


def _drafting(arguments: tuple[str, ...]) -> Mapping[str, Any]:
    text = last_value(arguments, "--speculative-config", "-sc")
    if text is None:
        method = last_value(arguments, "--spec-method")
        model = last_value(arguments, "--spec-model")
        return {"method": method, "model": model} if method or model else {}
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _is_unread(text: str | None) -> bool:
    return text is not None and not text.isdigit()


def _fraction(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value <= 1 else None
