"""Does the sampler that verifies drafts, in the process where it runs, give known answers?

On CPUs vLLM's rejection sampler calls functions that were put into it when its worker was made (see
`sampler_repair`). Whether those are the mended ones can be seen in the worker only, which under
most executors is another process than the scheduler's. So it is the worker that is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol


class Executor(Protocol):
    """What asks the workers: vLLM's executor."""

    def collective_rpc(self, method: Callable[..., Any]) -> list[Any]:
        """Call `method(worker)` in each worker; raises what a worker raised."""
        ...


def check_workers(executor: Executor | None) -> str | None:
    """Ask every worker; None when all samplers are right, else why not. Never raises.

    Without an executor nothing is known, which counts as wrong. Not on CPUs: nothing to check.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return None
    if executor is None:
        return "the workers cannot be asked whether their sampler is right"
    try:
        # No time limit: a late answer would be taken for that of the next question. A worker that
        # never answers stops the start, as anywhere else in it.
        answers = executor.collective_rpc(check_worker)
    except Exception as error:  # noqa: BLE001 - a worker that cannot say so is not known to be right
        return f"the workers did not say whether their sampler is right: {error}"
    if not answers:
        return "the workers did not say whether their sampler is right: there was no answer"
    return next((answer for answer in answers if answer is not None), None)


def find_executor() -> Executor | None:
    """The executor of the engine core that is just making its scheduler; None when there is none.

    vLLM hands the scheduler everything but this, and offers no other way to a worker. The engine
    core is looked for among the callers; the hook `engine_core_executor` says what is relied on.
    """
    frame = sys._getframe(1)
    while frame is not None:
        executor = getattr(frame.f_locals.get("self"), "model_executor", None)
        if executor is not None:
            found: Executor = executor
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return None


def check_worker(worker: object = None) -> str | None:
    """Run this process's sampler on known answers; None when right, else why not. Never raises.

    What is run is what vLLM's rejection sampler calls in this process.
    """
    try:
        return _check_expand() or _check_padding() or _check_top_k()
    except Exception as error:  # noqa: BLE001 - a function that raises is a function not mended
        return f"the check failed with {type(error).__name__}: {error}"


def _check_expand() -> str | None:
    """[0.5, 0, 2] over 2, 0 and 3 tokens, with 0 replaced by 1, is [0.5, 0.5, 2, 2, 2]."""
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
                "vLLM's CPU sampler does not hand temperature, top-k and top-p on to draft tokens "
                f"({dtype}: {output.tolist()}, expected {expected}; vLLM #55005)"
            )
    return None


def _check_padding() -> str | None:
    """One certain draft is accepted; a padded one gives the recovered token and stops."""
    import torch
    from vllm.v1.sample import rejection_sampler

    sample: Callable[..., None] = rejection_sampler._rejection_random_sample
    # Row 0 is request 0's only draft, -1. Its neighbours in memory are 1: whoever reads one
    # place to the left of the row finds a certain probability and accepts.
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
    """No rows stay no rows; of two rows each keeps its best and its two best."""
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
