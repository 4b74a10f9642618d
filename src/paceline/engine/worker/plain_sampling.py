"""Sample a step that verifies no draft token with vLLM's plain sampler.

vLLM uses the rejection sampler for every step of an engine that may speculate, even for steps
without drafts. It then verifies nothing but still draws noise over the vocabulary for every request
(about 1.5 ms a step at 8 requests on a small CPU, a third of a small target's step). The plain
sampler, which the rejection sampler itself calls for its bonus tokens, gives the same result over
the same rows. Only vLLM's holder of thinking budgets distinguishes the two calls, and handles this
one wrongly; `fixes.thinking_budget` replaces it.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.model_runner_loading import when_model_runner_loads

logger = logging.getLogger("vllm.paceline.plain_sampling")

_MARK = "__paceline_plain_sampling__"


def apply() -> bool:
    """Register the wrapper for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_sample)


def _wrap_sample() -> None:
    """Wrap the method in a process that has its module loaded. Idempotent."""
    misfit = unfit_for("plain_sampling", check_hooks("plain_sampling"))
    if misfit:
        logger.warning(
            "Paceline: plain sampling is off, because this vLLM does not fit its hooks: %s. Steps "
            "without drafts use the rejection sampler.",
            misfit,
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    stock: Any = runner._sample
    if hasattr(stock, _MARK):
        return

    @functools.wraps(stock)
    def sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        if spec_decode_metadata is not None and spec_decode_metadata.max_spec_len == 0:
            spec_decode_metadata = None
        return stock(self, logits, spec_decode_metadata)

    setattr(sample, _MARK, True)
    runner._sample = sample
