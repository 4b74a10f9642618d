"""Let a pipeline stage run on a CPU that was not warmed up.

Every stage but the first copies what it receives into a buffer. vLLM's Model Runner V1 creates the
buffer in its dummy run only (vLLM 0.32.0). The CPU worker makes none with `--enforce-eager`, so the
first request ends the engine with an AssertionError. The fix creates the buffer when it is first
needed, in the way of the dummy run.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.model_runner_loading import when_model_runner_loads

logger = logging.getLogger("vllm.paceline.pipeline_stages")

_MARK = "__paceline_pipeline_stages__"


def apply() -> bool:
    """Register the fix for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_copying)


def _wrap_copying() -> None:
    """Wrap the method in a process that has its module loaded. Idempotent."""
    misfit = unfit_for("pipeline_stages", check_hooks("pipeline_stages"))
    if misfit:
        logger.warning(
            "Paceline: the fix of pipeline stages is off, because this vLLM does not fit its "
            "hooks: %s. Do not use --enforce-eager together with --pipeline-parallel-size.",
            misfit,
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    if not hasattr(runner.sync_and_gather_intermediate_tensors, _MARK):
        runner.sync_and_gather_intermediate_tensors = with_buffer(
            runner.sync_and_gather_intermediate_tensors
        )


def with_buffer(stock: Any) -> Any:
    """Wrap the method that copies what a stage receives."""

    @functools.wraps(stock)
    def sync_and_gather_intermediate_tensors(
        self: Any, num_tokens: int, intermediate_tensors: Any, sync_self: bool
    ) -> Any:
        if self.intermediate_tensors is None:
            self.intermediate_tensors = self.model.make_empty_intermediate_tensors(
                batch_size=self.max_num_tokens,
                dtype=self.model_config.dtype,
                device=self.device,
            )
        return stock(self, num_tokens, intermediate_tensors, sync_self)

    setattr(sync_and_gather_intermediate_tensors, _MARK, True)
    return sync_and_gather_intermediate_tensors
