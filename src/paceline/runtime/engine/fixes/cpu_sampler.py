"""Correct three CPU sampling functions of vLLM, so that speculation is lossless with sampling.

vLLM 0.32.0 replaces its Triton sampling kernels on CPU by C++ functions that read every integer
tensor as int64. Two of the adapters are wrong (vLLM #55005):

1. `_expand_kernel_impl` converts its *output* with `.to(int64)`, which makes a copy; the copy is
   filled and dropped. Temperature, top-k and top-p per draft token stay uninitialised memory.
   (The float inputs would be truncated to whole numbers as well.)
2. `_rejection_random_sample_kernel_impl` does not handle the padding -1, which the Triton kernel
   rejects. It reads the probability at index -1: outside the row, and for the first row outside the
   tensor.

A third function fails on the same steps: `apply_top_k_only` takes the maximum of k, which does not
exist when the step verifies no draft token. Under speculation vLLM calls it for every such step
(the first of each request, all at draft length 0), so one request with top-k and without top-p
crashes the engine.

The other adapters were reviewed and are correct: they copy their outputs back and take the
recovered token's noise per request; `apply_top_k_top_p_pytorch` uses none. (`cpu_draws` replaces
the draws themselves, because they are slow.)

The fix replaces the two adapters in `vllm.utils.cpu_triton_utils`. vLLM reads them from there right
after it has loaded the plugins in each worker (`WorkerWrapperBase.init_worker`), so the fix reaches
the worker under every executor, imports nothing elsewhere, and runs no kernel in the front end.
The third function is replaced at the first call of the first one: this happens in the worker, where
its module is loaded, and always before it is needed.

The fix applies to every vLLM on a CPU where Paceline is installed, not only under
AdaptiveScheduler: the stock functions read uninitialised memory, so there is no behaviour to
preserve. To run stock vLLM, start it with `VLLM_PLUGINS=""`. `sampler_check` verifies the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.runtime.engine.compat.wrapping import fits, wrap_once


def apply() -> bool:
    """Replace the wrong functions in this process; return whether the fix is in place.

    Does nothing on other platforms, and where a hook does not fit (logged). Idempotent.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu() or not fits("cpu_sampler", "the CPU sampler fix"):
        return False
    from vllm.utils import cpu_triton_utils as adapters

    wrap_once(adapters, "_expand_kernel_impl", "cpu_sampler", _expand_in_place())
    wrap_once(adapters, "_rejection_random_sample_kernel_impl", "cpu_sampler", _reject_padding)
    return True


def _apply_to_top_k() -> None:
    """Replace `apply_top_k_only` in a process that has its module loaded. Idempotent."""
    if fits("cpu_top_k", "the top-k fix"):
        from vllm.v1.sample.ops import topk_topp_sampler

        wrap_once(topk_topp_sampler, "apply_top_k_only", "cpu_top_k", _accept_empty_batch)


def _expand_in_place() -> Callable[..., None]:
    """Return the kernel's contract in torch: repeat each request's value once per draft token."""
    is_first_call = True

    def expand(
        stock: Any,
        output: Any,
        input_val: Any,
        cu_num_tokens: Any,
        replace_from: float,
        replace_to: float,
        MAX_NUM_TOKENS: int | None = None,
    ) -> None:
        import torch

        nonlocal is_first_call
        if is_first_call:
            is_first_call = False
            _apply_to_top_k()
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        values = torch.where(input_val == replace_from, replace_to, input_val)
        # Filled in place: vLLM passes uninitialised memory.
        output.copy_(torch.repeat_interleave(values.to(output.dtype), counts))

    return expand


def _reject_padding(
    stock: Any,
    output_token_ids: Any,
    cu_num_draft_tokens: Any,
    draft_token_ids: Any,
    draft_probs: Any,
    target_probs: Any,
    bonus_token_ids: Any,
    recovered_token_ids: Any,
    uniform_probs: Any,
    *rest: Any,
    **named: Any,
) -> None:
    """Call the stock function without -1: a padded draft gets a threshold that rejects it."""
    is_padding = draft_token_ids < 0
    if bool(is_padding.any()):
        draft_token_ids = draft_token_ids.clamp(min=0)
        uniform_probs = uniform_probs.masked_fill(is_padding, float("inf"))
    stock(
        output_token_ids,
        cu_num_draft_tokens,
        draft_token_ids,
        draft_probs,
        target_probs,
        bonus_token_ids,
        recovered_token_ids,
        uniform_probs,
        *rest,
        **named,
    )


def _accept_empty_batch(stock: Any, logits: Any, k: Any) -> Any:
    """Call the stock function unless there are no rows to mask."""
    return stock(logits, k) if logits.shape[0] else logits
