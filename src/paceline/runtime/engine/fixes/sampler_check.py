"""Run each worker's rejection sampler on known answers, before speculating for sampled requests.

vLLM binds its CPU sampling functions when it creates a worker (see `cpu_sampler`). Only the worker
can show whether these are the corrected ones, and under most executors it runs in another process
than the scheduler, so the scheduler sends the check to every worker through the executor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.runtime.engine.compat.executor import Executor


def check_workers(executor: Executor | None) -> str | None:
    """Check every worker's sampler; return None when all are right, else why not. Never raises.

    Without an executor the result is unknown, which counts as wrong. On other platforms than CPUs
    there is nothing to check.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return None
    if executor is None:
        return "the workers cannot be reached to check their sampler"
    try:
        # No time limit: a late answer would be taken for the answer to the next call. A worker that
        # never answers blocks the start here as it would anywhere else.
        answers = executor.collective_rpc(check_worker)
    except Exception as error:  # noqa: BLE001 - without an answer the sampler is not known to be right
        return f"the workers failed to check their sampler: {error}"
    if not answers:
        return "the workers failed to check their sampler: no worker answered"
    return next((answer for answer in answers if answer is not None), None)


def check_worker(worker: object = None) -> str | None:
    """Run this process's sampler on known answers; return None when right, else why not.

    Calls the functions that vLLM's rejection sampler calls in this process. Never raises.
    """
    try:
        return _check_expand() or _check_padding() or _check_top_k()
    except Exception as error:  # noqa: BLE001 - a function that raises has not been corrected
        return f"the check failed with {type(error).__name__}: {error}"


def _check_expand() -> str | None:
    """Expand per-request values to draft tokens, with 0 replaced by 1.

    [3.5, 0, 1] over 2, 1 and 3 tokens gives [3.5, 3.5, 1, 1, 1, 1].
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    expand: Callable[..., None] = rejection_sampler._expand
    for dtype in (torch.float32, torch.int32, torch.int64):
        values = torch.tensor([7, 0, 2]).to(dtype) / (2 if dtype.is_floating_point else 1)
        output = torch.full((6,), -5).to(dtype)  # anything but the answer
        cu_num_tokens = torch.tensor([2, 3, 6], dtype=torch.int32)
        expand(output, values, cu_num_tokens, 0, 1)
        expected = [values[0].item()] * 2 + [1] + [values[2].item()] * 3
        if output.tolist() != expected:
            return (
                "vLLM's CPU sampler does not apply temperature, top-k and top-p to draft tokens "
                f"({dtype}: {output.tolist()}, expected {expected}; vLLM #55005)"
            )
    return None


def _check_padding() -> str | None:
    """Accept a draft of probability 1; at a padded draft, take the recovered token and stop."""
    import torch
    from vllm.v1.sample import rejection_sampler

    sample: Callable[..., None] = rejection_sampler._rejection_random_sample
    # Row 0 belongs to request 0's only draft, -1. The memory before it is 1, so a function that
    # reads one element to the left of the row finds probability 1 and accepts.
    memory = torch.ones(5, 3)
    target_probs = memory[1:4]
    target_probs[0] = torch.tensor([0.5, 0.5, 0.0])
    target_probs[1] = torch.tensor([0.0, 1.0, 0.0])
    target_probs[2] = torch.tensor([0.0, 0.0, 1.0])
    output = torch.full((2, 3), -1, dtype=torch.int32)
    sample(
        output,
        torch.tensor([1, 3], dtype=torch.int32),
        torch.tensor([-1, 1, 2], dtype=torch.int32),
        None,
        target_probs,
        torch.tensor([[7], [8]]),
        torch.tensor([1, 0, 0], dtype=torch.int32),
        torch.full((3,), 0.5, dtype=torch.float64),
        torch.tensor([False, False]),
        2,
        None,
    )
    expected = [[1, -1, -1], [1, 2, 8]]
    if output.tolist() != expected:
        return (
            "vLLM's CPU sampler does not reject padded draft tokens "
            f"({output.tolist()}, expected {expected}; vLLM #55005)"
        )
    return None


def _check_top_k() -> str | None:
    """Return an empty batch unchanged; keep the best 1 and the best 2 of two rows."""
    import torch
    from vllm.v1.sample.ops import topk_topp_sampler

    apply_top_k: Callable[[Any, Any], Any] = topk_topp_sampler.apply_top_k_only
    try:
        apply_top_k(torch.empty(0, 3), torch.empty(0, dtype=torch.int32))
    except RuntimeError as error:
        return f"vLLM's top-k fails for a step without draft tokens: {error}"
    logits = torch.tensor([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
    kept = (apply_top_k(logits, torch.tensor([1, 2])) > -torch.inf).tolist()
    expected = [[False, True, False], [False, True, True]]
    return None if kept == expected else f"vLLM's top-k keeps {kept}, expected {expected}"
