"""What a cost table belongs to: models, formats, layout, limits, machine and versions.

Whatever changes the duration of a step in other than one common proportion should be in it. The
check at the next start finds the rest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.recording.stored_costs import cpu_name

_MODEL_FILES = ("config.json", "*.safetensors", "*.bin", "*.pt", "*.gguf")
_THREAD_VARIABLES = (
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TORCHDYNAMO_DISABLE",
    "VLLM_CPU_OMP_THREADS_BIND",
)


def identity_of(
    vllm_config: Any,
    *,
    max_draft_length: int,
    allowed_lengths: tuple[int, ...] | None,
    executor: object,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """The identity of this engine's steps, as JSON values. Reads the models' file names and
    /proc."""
    import vllm

    target, speculative = vllm_config.model_config, vllm_config.speculative_config
    draft, parallel = speculative.draft_model_config, vllm_config.parallel_config
    compilation = vllm_config.compilation_config
    return {
        "vllm": vllm.__version__,
        "target": _model(target),
        "draft": None if draft is None or draft is target else _model(draft),
        "method": speculative.method,
        "draft_sample_method": str(speculative.draft_sample_method),
        "max_draft_length": max_draft_length,
        "allowed_lengths": None if allowed_lengths is None else list(allowed_lengths),
        "max_num_seqs": vllm_config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": vllm_config.scheduler_config.max_num_batched_tokens,
        "kv_cache_dtype": str(vllm_config.cache_config.cache_dtype),
        "block_size": vllm_config.cache_config.block_size,
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "executor": type(executor).__name__,
        "enforce_eager": bool(target.enforce_eager),
        "compilation_mode": str(compilation.mode),
        "cudagraph_mode": str(compilation.cudagraph_mode),
        "device": _device(vllm_config.device_config.device_type),
        "cpu_ids": sorted(os.sched_getaffinity(0)),
        "threads": {name: environ.get(name, "") for name in _THREAD_VARIABLES},
    }


def _model(config: Any) -> dict[str, Any]:
    return {
        "model": str(config.model),
        "revision": config.revision,
        "dtype": str(config.dtype),
        "quantization": config.quantization,
        "max_model_len": config.max_model_len,
        "files": files_of(Path(config.model)),
    }


def files_of(folder: Path) -> list[list[Any]]:
    """Name, bytes and time of change of a model folder's configuration and weights; empty for the
    name of a model on a hub."""
    found = {path for pattern in _MODEL_FILES for path in folder.glob(pattern) if path.is_file()}
    return [
        [path.name, (stat := path.stat()).st_size, stat.st_mtime_ns]
        for path in sorted(found, key=lambda path: path.name)
    ]


def _device(device_type: str) -> str:
    if device_type == "cpu":
        return cpu_name()
    from vllm.platforms import current_platform

    return str(current_platform.get_device_name())
