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

from collections.abc import Sequence
from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers

_NUM_DRAFTS = "_paceline_num_draft_tokens"
"""The attribute of vLLM's processor that holds the drafts per row while a step is verified."""


def _forward(
    stock: Any, sampler: Any, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any
) -> Any:
    """Verify drafts, while the processor knows how many each row has."""
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor

    processors = [
        each
        for each in sampling_metadata.logitsprocs.non_argmax_invariant
        if isinstance(each, MinTokensLogitsProcessor)
    ]
    for each in processors:
        setattr(each, _NUM_DRAFTS, metadata.num_draft_tokens)
    try:
        return stock(sampler, metadata, draft_probs, logits, sampling_metadata)
    finally:
        for each in processors:
            delattr(each, _NUM_DRAFTS)


def _apply_after_drafts(stock: Any, processor: Any, logits: Any) -> Any:
    """Mask one row per request."""
    num_drafts: Sequence[int] | None = getattr(processor, _NUM_DRAFTS, None)
    if num_drafts is None:
        return stock(processor, logits)
    every = processor.min_toks
    short = {
        row: entry
        for row, entry in every.items()
        if len(entry[1]) + num_drafts[row] < entry[0]  # (min_tokens, output, …)
    }
    if len(short) == len(every):
        return stock(processor, logits)
    processor.min_toks = short
    try:
        return processor.apply_with_spec_decode(logits, [1] * logits.shape[0])
    finally:
        processor.min_toks = every


WRAPPERS = Wrappers(
    "min_tokens",
    {
        "vllm.v1.sample.rejection_sampler:RejectionSampler.forward": _forward,
        "vllm.v1.sample.logits_processor.builtin:MinTokensLogitsProcessor.apply": (
            _apply_after_drafts
        ),
    },
    name="the min_tokens fix",
)
