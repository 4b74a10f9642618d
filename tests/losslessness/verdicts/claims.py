"""The distributions that speculative sampling claims, computed apart from vLLM.

Everything is float64 and per row; vLLM computes in float32 and for the whole batch. `target_probs`
and `draft_probs` have shape (vocabulary,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDING = 3e-5
"""float32 sums over a few thousand probabilities err by about 1e-6. A top-p limit this close to a
partial sum, or a top-k limit this close (in logits) to the next token, may fall to either side."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The distribution that a token is sampled from."""

    probs: Floats
    is_certain: bool
    """False where rounding decides which tokens top-k or top-p keep. Depends on the logits only,
    so leaving such positions out of a test does not bias it."""


def processed(logits: Floats, *, temperature: float, top_k: int, top_p: float) -> Claim:
    """Temperature, then top-k (0 or less: all), then top-p; from raw logits (vocabulary,)."""
    scaled = logits.astype(np.float64) / temperature
    is_certain = True
    if 0 < top_k < len(scaled):
        next_best, last_kept = np.sort(np.partition(scaled, -top_k - 1)[-top_k - 1 :])[:2]
        is_certain = last_kept - next_best > _ROUNDING
        scaled = np.where(scaled >= last_kept, scaled, -np.inf)
    weights = np.exp(scaled - scaled.max())
    probs = weights / weights.sum()
    if top_p < 1.0:
        # All tokens below this bound together have less than half of what top-p cuts off.
        least_useful = (1.0 - top_p) / (2 * len(probs))
        descending = np.sort(probs[probs > least_useful])[::-1]
        before = np.cumsum(descending) - descending
        is_certain = is_certain and bool(np.abs(before - top_p).min() > _ROUNDING)
        least_kept = descending[np.count_nonzero(before < top_p) - 1]
        probs = np.where(probs >= least_kept, probs, 0.0)
        probs = probs / probs.sum()
    return Claim(probs, bool(is_certain))


def acceptance_ratio(target_probs: Floats, draft_probs: Floats | None, token_id: int) -> float:
    """target / draft probability of a draft token; it is accepted with probability min(1, ratio).

    Without `draft_probs` the drafter is deterministic: its draft probability is 1.
    """
    draft_prob = 1.0 if draft_probs is None else float(draft_probs[token_id])
    return float(target_probs[token_id]) / max(draft_prob, 1e-30)


def residual(target_probs: Floats, draft_probs: Floats | None, rejected_id: int) -> Floats:
    """The distribution of the token that replaces a rejected draft: max(0, target - draft).

    All zeros if the target nowhere exceeds the draft, in which case no draft can be rejected.
    """
    if draft_probs is None:
        remaining = target_probs.copy()
        remaining[rejected_id] = 0.0
    else:
        remaining = np.maximum(target_probs - draft_probs, 0.0)
    total = float(remaining.sum())
    return remaining / total if total > 0.0 else remaining


def uniform_of(probs: Floats, token_id: int, *, draw: float) -> float | None:
    """The randomised probability integral transform of a token, likelier tokens first.

    Uniform on [0, 1] if the token is a draw from `probs` and `draw` is an independent uniform
    number. None if the token has no probability.
    """
    prob = float(probs[token_id])
    if prob <= 0.0:
        return None
    above = float(probs[probs > prob].sum())
    equal = float(probs[probs == prob].sum())
    return min(above + draw * equal, 1.0)
