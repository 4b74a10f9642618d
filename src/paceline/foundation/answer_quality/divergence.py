"""Scores of a text under a model, and how far two models' scores are apart, token by token.

Whole distributions of all texts do not fit into memory (some 10 GB for a vocabulary of 150,000). So
the baseline's `NUM_NAMED` most probable tokens are kept at each position, and a candidate is read
at the same tokens.

The divergence is KL(baseline || candidate) in nats, over the tokens that the baseline names and one
cell for all others. Joining cells never increases it, so it is a lower bound of the divergence over
the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.foundation.answer_quality.values import Floats

NUM_NAMED = 64
"""Chosen: the 64 most probable of 4,096 or more tokens have nearly all of the probability."""
_SMALLEST = 1e-7
"""Least probability of a cell: float32 sums to 1 within this."""

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One model on one text of `num_tokens` tokens."""

    ids: Ints
    """The baseline's most probable tokens, (num_tokens, num_named)."""
    logprobs: Floats
    """ln of their probabilities under this model, (num_tokens, num_named)."""
    token_logprobs: Floats
    """ln of the probabilities of the text's own tokens, (num_tokens,)."""
    best: Ints
    """This model's most probable tokens, (num_tokens,)."""

    @property
    def is_finite(self) -> bool:
        """Whether all are numbers."""
        return bool(np.isfinite(self.logprobs).all() and np.isfinite(self.token_logprobs).all())


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """A candidate against the baseline on one text, each (num_tokens,)."""

    kl_nats: Floats
    loss_nats: Floats
    """Baseline minus candidate log-probability of the text's own token."""
    agrees: Floats
    """1 where both have the same most probable token, else 0."""


def count_broken(scores: Mapping[str, Scores]) -> int:
    """The number of texts with a probability that is not a finite number."""
    return sum(not one.is_finite for one in scores.values())


def compare_scores(baseline: Scores, candidate: Scores) -> Divergence:
    """The divergence on one text. Both must have scored the same tokens."""
    p, q = (np.maximum(_with_rest(one.logprobs), _SMALLEST) for one in (baseline, candidate))
    p, q = (one / one.sum(axis=1, keepdims=True) for one in (p, q))
    return Divergence(
        kl_nats=np.maximum((p * np.log(p / q)).sum(axis=1), 0.0),
        loss_nats=baseline.token_logprobs - candidate.token_logprobs,
        agrees=(baseline.best == candidate.best).astype(np.float64),
    )


def _with_rest(logprobs: Floats) -> Floats:
    """Probabilities (num_tokens, num_named + 1)."""
    named = np.exp(logprobs)
    rest = np.maximum(1.0 - named.sum(axis=1, keepdims=True), 0.0)
    return np.concatenate((named, rest), axis=1)
