"""Sample a step that verifies no draft token with vLLM's plain sampler.

vLLM uses the rejection sampler for every step of an engine that may speculate, even for steps
without drafts. It then verifies nothing but still draws noise over the vocabulary for every request
(about 1.5 ms a step at 8 requests on a small CPU, a third of a small target's step). The plain
sampler, which the rejection sampler itself calls for its bonus tokens, gives the same result over
the same rows. Only vLLM's holder of thinking budgets distinguishes the two calls, and handles this
one wrongly; `fixes.thinking_budget` replaces it.
"""

from __future__ import annotations

from typing import Any

from paceline.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.engine.compat.wrapping import fits, wrap_once

_PART = "plain_sampling"


def apply() -> bool:
    """Register the wrapper for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap)


def _wrap() -> None:
    """Wrap the method in a process that has its module loaded. Idempotent."""
    if fits(_PART, otherwise="Steps without drafts use the rejection sampler."):
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        wrap_once(GPUModelRunner, "_sample", _PART, _sample)


def _sample(stock: Any, runner: Any, logits: Any, spec_decode_metadata: Any) -> Any:
    if spec_decode_metadata is not None and spec_decode_metadata.max_spec_len == 0:
        spec_decode_metadata = None
    return stock(runner, logits, spec_decode_metadata)
