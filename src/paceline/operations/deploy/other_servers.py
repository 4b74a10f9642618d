"""The settings of servers other than vLLM, from the planner's limits.

The planner's limits are vLLM's. Names and meanings of the options are those of TensorRT-LLM 1.3
(`tensorrt_llm/commands/serve.py`) and of Triton's vLLM backend (its README).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.foundation.planning.values import EngineLimits
from paceline.operations.deploy.values import DeployError, ServerName

DEFAULT_IMAGES: Mapping[ServerName, str] = {
    # The first release with --served_model_name is 1.3 (TensorRT-LLM #11711).
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13",
    "triton": "nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3",
}

TRTLLM_SETTINGS: Mapping[str, Any] = {
    # Both are needed for the gauges of running and waiting requests at /prometheus/metrics.
    "return_perf_metrics": True,
    "enable_iter_perf_stats": True,
}
"""What `trtllm-serve --config` reads."""


def split_pool_option(text: str) -> tuple[ServerName, str]:
    """The server and the image of ENGINE or ENGINE=IMAGE. Raises `DeployError`.

    >>> split_pool_option("triton=registry.example/triton:1")
    ('triton', 'registry.example/triton:1')
    """
    name, equals, image = text.partition("=")
    for server, default in DEFAULT_IMAGES.items():
        if name == server:
            return server, image if equals else default
    raise DeployError(
        f"--pool {text!r}: give ENGINE or ENGINE=IMAGE; engines are {', '.join(DEFAULT_IMAGES)}"
    )


def model_id(server: ServerName, model: str) -> str:
    """The model id of a pool, apart from those of the other pools.

    For Triton it is the name of a folder in the model repository, so it has no slash. Kubernetes
    mounts no path with a colon.

    >>> model_id("trtllm", "Qwen/Qwen3-8B"), model_id("triton", "Qwen/Qwen3-8B")
    ('Qwen/Qwen3-8B-trtllm', 'Qwen3-8B-triton')
    """
    folder = model.rpartition("/")[2].replace(":", "-")
    return f"{folder if server == 'triton' else model}-{server}"


def trtllm_args(limits: EngineLimits, tensor_parallel: int) -> tuple[str, ...]:
    """Arguments of `trtllm-serve` after the model.

    Its fraction of the memory counts from what is free after the weights. The same number as
    vLLM's fraction of all memory therefore leaves at least as much for the KV cache as planned.
    """
    return (
        "--tp_size",
        str(tensor_parallel),
        "--max_seq_len",
        str(limits.max_model_len),
        "--max_batch_size",
        str(limits.max_num_seqs),
        "--max_num_tokens",
        str(limits.max_batched_tokens),
        "--kv_cache_free_gpu_memory_fraction",
        f"{limits.gpu_memory_utilization:g}",
        # Without it, a prompt longer than --max_num_tokens is refused.
        "--enable_chunked_prefill",
    )


def triton_engine(
    model: str, dtype: str, limits: EngineLimits, tensor_parallel: int
) -> dict[str, Any]:
    """The `model.json` of Triton's vLLM backend: arguments of vLLM's AsyncEngineArgs."""
    return {
        "model": model,
        "dtype": dtype,
        "tensor_parallel_size": tensor_parallel,
        "gpu_memory_utilization": limits.gpu_memory_utilization,
        "max_model_len": limits.max_model_len,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_batched_tokens,
        # The gateway sees by the counter of tokens that the engine works.
        "disable_log_stats": False,
    }
