"""How is a step sampled that verifies no draft token?

vLLM takes the rejection sampler for every step of an engine that may speculate, also when there is
no draft in it: then it verifies nothing, at the cost of drawing noise over the vocabulary for every
request and more (about 1.5 ms a step at 8 requests on a small CPU, a third of a small target's
step). Here such a step is sampled by the plain sampler, as in an engine without speculation: what
the rejection sampler itself calls for its bonus tokens, over the same rows.

A wrapper around `GPUModelRunner._sample`, put in place in CPU workers (`worker_hook`).
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.worker.worker_hook import call_in_workers

logger = logging.getLogger("vllm.paceline.plain_sampling")

_MARK = "__paceline_plain_sampling__"


def apply() -> bool:
    """Arrange for the wrapper in this process's workers; True when it is arranged."""
    return call_in_workers(_wrap_sample)


def _wrap_sample() -> None:
    """Wrap the method in a process that has its module loaded. Twice is harmless."""
    misfit = unfit_for("plain_sampling", check_hooks("plain_sampling"))
    if misfit:
        logger.warning("Paceline: steps without drafts keep the rejection sampler: %s", misfit)
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
