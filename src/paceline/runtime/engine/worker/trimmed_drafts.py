"""Report which drafts vLLM's adaptive verification left out, from Model Runner V2's workers.

With `enable_adaptive_verification` the scheduler sends whole drafts, and the worker verifies only
the tokens that are most likely to be accepted. Which these are is decided on the GPU and does not
reach vLLM's scheduler, which takes the others for rejected. When the scheduler starts,
`sample_tokens` of each worker's runner is therefore wrapped: a step that left tokens out copies the
boundaries of its logits, one row per verified token and one more per request, to the host. The copy
is queued before vLLM's own copy of the sampled tokens, and vLLM waits for that one before it sends
the results, to which the boundaries are attached.

Never run on a GPU: the tests run it on a CPU, around vLLM's own classes of batches and results.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.wrapping import wrap_once

logger = logging.getLogger("vllm.paceline.trimmed_drafts")

_BOUNDARIES = "paceline_logit_boundaries"
"""The attribute of vLLM's results with the boundaries, (num_requests + 1,)."""
_FAILED = "_paceline_trims_unknown"
"""On the runner, after boundaries could not be read."""
_PART = "trimmed_drafts"


def report_from_worker(worker: Any) -> str:
    """In the worker: wrap its runner's `sample_tokens`; return "" or why not. Idempotent."""
    misfit = unfit_for(_PART, check_hooks(_PART))
    if misfit:
        return misfit
    runner: Any = worker.model_runner
    if runner.pcp_manager is not None:
        return "prefill context parallelism gives each worker a batch of its own"
    wrap_once(runner, "sample_tokens", _PART, functools.partial(_sample_tokens, runner))
    return ""


def verified_lengths(results: Any) -> Mapping[str, int]:
    """Return how many draft tokens of each request were verified; empty where all were.

    `results` is vLLM's `ModelRunnerOutput`.
    """
    boundaries = getattr(results, _BOUNDARIES, None)
    if boundaries is None:
        return {}
    return dict(zip(results.req_ids, (np.diff(boundaries) - 1).tolist(), strict=True))


def _sample_tokens(runner: Any, stock: Any, *arguments: Any, **named: Any) -> Any:
    """Sample, and attach the boundaries of a step that left tokens out to its results."""
    state, boundaries = runner.execute_model_state, None
    if state is not None and not getattr(runner, _FAILED, False):
        try:
            boundaries = _boundaries(state.input_batch)
        except Exception:  # the worker must continue
            setattr(runner, _FAILED, True)
            logger.exception(
                "Paceline: from now on, drafts that adaptive verification leaves out count as "
                "rejected"
            )
    output = stock(*arguments, **named)
    if boundaries is not None:
        setattr(output.model_runner_output, _BOUNDARIES, boundaries)
    return output


def _boundaries(batch: Any) -> Any:
    """Begin to copy those of a batch that leaves tokens out; None if it verifies all drafts."""
    scheduled = batch.num_draft_tokens_per_req
    if scheduled is None or batch.num_draft_tokens == int(scheduled.sum()):
        return None
    import torch

    found = batch.cu_num_logits[: batch.num_reqs + 1]
    # New memory for each step: several steps may be in flight.
    copy = torch.empty(found.shape, dtype=found.dtype, pin_memory=found.is_cuda)
    return copy.copy_(found, non_blocking=True).numpy()
