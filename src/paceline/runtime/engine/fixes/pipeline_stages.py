"""Let a pipeline stage run on a CPU that was not warmed up.

Every stage but the first copies what it receives into a buffer. vLLM's Model Runner V1 creates the
buffer in its dummy run only (vLLM 0.32.0). The CPU worker makes none with `--enforce-eager`, so the
first request ends the engine with an AssertionError. The fix creates the buffer when it is first
needed, in the way of the dummy run.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers


def _create_buffer_and_copy(stock: Any, runner: Any, *arguments: Any, **named: Any) -> Any:
    """Copy what a stage receives."""
    if runner.intermediate_tensors is None:
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens,
            dtype=runner.model_config.dtype,
            device=runner.device,
        )
    return stock(runner, *arguments, **named)


WRAPPERS = Wrappers(
    "pipeline_stages",
    {
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.sync_and_gather_intermediate_tensors": (
            _create_buffer_and_copy
        )
    },
    name="the fix of pipeline stages",
    otherwise="Do not use --enforce-eager together with --pipeline-parallel-size.",
)
