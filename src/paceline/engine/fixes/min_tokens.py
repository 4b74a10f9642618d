"""Let a request with `min_tokens` end at the first token at which it may, also under speculation.

Until a request has `min_tokens` tokens, vLLM masks its end-of-sequence and stop tokens. In a step
with drafts, its rejection sampler counts them for the drafted positions, but samples the token
after them (the bonus token) with the mask of the first position (vLLM 0.32.0). With 3 of 5 tokens
and 3 drafts, the seventh token cannot be an end, although it may: greedy output differs from that
of an engine without speculation.

The fix masks the bonus token only where the minimum is not reached by the drafts before it. If one
of them is rejected, the bonus token is discarded anyway.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.model_runner_loading import when_model_runner_loads

logger = logging.getLogger("vllm.paceline.min_tokens")

_MARK = "__paceline_min_tokens__"
_NUM_DRAFTS = "_paceline_num_draft_tokens"
"""The attribute of vLLM's processor that holds the drafts per row while a step is verified."""


def apply() -> bool:
    """Register the fix for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_samplers)


def _wrap_samplers() -> None:
    """Wrap both methods in a process that has their modules loaded. Idempotent."""
    misfit = unfit_for("min_tokens", check_hooks("min_tokens"))
    if misfit:
        logger.warning(
            "Paceline: the min_tokens fix is off, because this vLLM does not fit its hooks: %s",
            misfit,
        )
        return
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor
    from vllm.v1.sample.rejection_sampler import RejectionSampler

    sampler: Any = RejectionSampler
    processor: Any = MinTokensLogitsProcessor
    if hasattr(sampler.forward, _MARK):
        return
    sampler.forward = _with_draft_counts(sampler.forward, processor)
    processor.apply = _after_drafts(processor.apply)


def _with_draft_counts(stock: Any, kind: type) -> Any:
    """Wrap the rejection sampler, so that the processor knows the drafts of each row."""

    @functools.wraps(stock)
    def forward(
        self: Any, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any
    ) -> Any:
        processors = [
            each
            for each in sampling_metadata.logitsprocs.non_argmax_invariant
            if isinstance(each, kind)
        ]
        for each in processors:
            setattr(each, _NUM_DRAFTS, metadata.num_draft_tokens)
        try:
            return stock(self, metadata, draft_probs, logits, sampling_metadata)
        finally:
            for each in processors:
                delattr(each, _NUM_DRAFTS)

    setattr(forward, _MARK, True)
    return forward


def _after_drafts(stock: Any) -> Any:
    """Wrap `apply`, which masks one row per request."""

    @functools.wraps(stock)
    def apply_min_tokens(self: Any, logits: Any) -> Any:
        num_drafts: Sequence[int] | None = getattr(self, _NUM_DRAFTS, None)
        if num_drafts is None:
            return stock(self, logits)
        every = self.min_toks
        short = {
            row: entry
            for row, entry in every.items()
            if len(entry[1]) + num_drafts[row] < entry[0]  # (min_tokens, output, …)
        }
        if len(short) == len(every):
            return stock(self, logits)
        self.min_toks = short
        try:
            return self.apply_with_spec_decode(logits, [1] * logits.shape[0])
        finally:
            self.min_toks = every

    return apply_min_tokens
