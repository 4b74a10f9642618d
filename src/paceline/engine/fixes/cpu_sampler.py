"""How speculation with sampling gives the target's distribution on CPU; `sampler_check` checks it.

vLLM 0.32.0 replaces its Triton sampling kernels on CPU by C++ functions that read every integer
tensor as int64. Two of the adapters are wrong (vLLM #55005):

1. `_expand_kernel_impl` converts its *output* with `.to(int64)`, which makes a copy; the copy is
   filled and dropped. Temperature, top-k and top-p per draft token stay uninitialised memory.
   (The float inputs would be truncated to whole numbers as well.)
2. `_rejection_random_sample_kernel_impl` does not know the padding -1 that the Triton kernel
   rejects: it reads the probability at index -1, outside the row, outside the tensor at first.

A third function is wrong for the same steps: `apply_top_k_only` takes the maximum of k, which has
none when the step verifies no draft token. Under speculation vLLM calls it for every such step (the
first of each request, all at draft length 0), so one request with top-k and without top-p ends
the engine.

The others were read and are right: they copy their outputs back, take the recovered token's
noise per request, and `apply_top_k_top_p_pytorch` and `fused_gumbel_argmax` use no such adapter.

The repair replaces the two adapters in `vllm.utils.cpu_triton_utils`. vLLM reads them from there
right after it loaded the plugins in each worker (`WorkerWrapperBase.init_worker`), so it reaches
the worker whatever the executor, costs no import elsewhere, and runs no kernel in the front end.
The third is replaced when the first is called for the first time: that is in the worker, where its
module is loaded, and always just before it is needed.
It is applied for every vLLM on a CPU where Paceline is installed, not only under our scheduler:
the stock functions read memory that nobody wrote, there is no behaviour to preserve. To see stock
vLLM, start it with `VLLM_PLUGINS=""`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for

logger = logging.getLogger("vllm.paceline.sampler_repair")

_MARK = "__paceline_repair__"


def apply() -> bool:
    """Replace the wrong CPU functions in this process; True when the repair is in place.

    Does nothing on other platforms, and where a hook does not fit (logged). Twice is harmless.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return False
    misfit = unfit_for("sampler_repair", check_hooks("sampler_repair"))
    if misfit:
        logger.warning(
            "Paceline: vLLM's CPU sampler stays as it is, for the repair does not fit: %s", misfit
        )
        return False
    from vllm.utils import cpu_triton_utils

    _replace(cpu_triton_utils, "_expand_kernel_impl", _expand_in_place)
    _replace(cpu_triton_utils, "_rejection_random_sample_kernel_impl", _rejecting_padding)
    return True


def _apply_top_k_repair() -> None:
    """Replace `apply_top_k_only`, in a process that has its module loaded. Twice is harmless."""
    misfit = unfit_for("top_k_repair", check_hooks("top_k_repair"))
    if misfit:
        logger.warning(
            "Paceline: vLLM's top-k stays as it is, for the repair does not fit: %s", misfit
        )
        return
    from vllm.v1.sample.ops import topk_topp_sampler

    _replace(topk_topp_sampler, "apply_top_k_only", _passing_no_rows)


def _replace(module: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
    stock = getattr(module, name)
    if not hasattr(stock, _MARK):
        mended = functools.wraps(stock)(make(stock))
        setattr(mended, _MARK, True)
        setattr(module, name, mended)


def _expand_in_place(stock: Callable[..., None]) -> Callable[..., None]:
    """The kernel's contract in torch: repeat each request's value once per draft token."""
    is_first_call = True

    def expand(
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
            _apply_top_k_repair()
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        values = torch.where(input_val == replace_from, replace_to, input_val)
        # Filled in place: vLLM hands in memory that nobody has written yet.
        output.copy_(torch.repeat_interleave(values.to(output.dtype), counts))

    return expand


def _rejecting_padding(stock: Callable[..., None]) -> Callable[..., None]:
    """The stock function on drafts without -1: padding gets a threshold no probability reaches."""

    def sample(
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

    return sample


def _passing_no_rows(stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The stock function, but for no rows, where there is nothing to mask."""

    def apply_top_k(logits: Any, k: Any) -> Any:
        return stock(logits, k) if logits.shape[0] else logits

    return apply_top_k
