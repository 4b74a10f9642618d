"""A bound on the prompt tokens per step, so that answers under way keep their time between tokens.

A prompt computed in one piece delays every answer under way for as long as it takes. In pieces of P
tokens alongside n decodes, a step takes

    seconds = cost(n, v, c, k) + token * P            (the first term: see `cost`)

and P is the largest number for which the step takes at most objective / margin:

    P = (objective / margin - cost(n, v, c, k)) / token

`token`, the seconds that a prompt token adds, is updated along each prompt (attention makes later
tokens more expensive). The margin is a feedback loop on the objective itself: it grows by `_RISE`
with each decode step beyond the objective, with or without a prefill, and shrinks with each other
step so slowly that the two balance when `_MISSES` of the steps are late. So 99 % of the steps keep
the objective even when the cost model is wrong, as long as any P can keep it. Where decoding alone
exceeds the objective, `_LEAST_TOKENS` per step are still computed, so that the queue drains.

While no request decodes, P has no bound. Assumes that the time between two tokens of a request is
the duration of a step (a request waits for no step but its own). Reference for chunked prefills
under a limit on time between tokens: Sarathi-Serve, arXiv 2403.02310; the margin is a stochastic
approximation of a quantile (Robbins and Monro, 1951).
"""

from __future__ import annotations

from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample

# All chosen empirically.
_LEAST_TOKENS = 16
_MISSES = 0.005
"""Half of what P99 allows: the objective is judged on waits, and one long step is several waits."""
_RISE = 0.05
_MIN_MARGIN, _MAX_MARGIN = 1.0, 4.0
_FIRST_MARGIN = 1.15
_LEARN_SHARE = 0.2
_FIRST_TOKEN_SHARE = 0.1
"""A prompt token's assumed share of an undrafted step before any was measured: a high one."""


class PrefillPacer:
    """Bounds prefills under an objective for the time between two tokens, in seconds."""

    def __init__(self, objective_s: float) -> None:
        if not objective_s > 0.0:
            raise ValueError(f"objective_s is {objective_s}; it must be positive")
        self._objective_s = objective_s
        self._cost = CostModel()
        self._token_s = 0.0
        self._margin = _FIRST_MARGIN
        self._is_decoding = False

    def observe(self, sample: StepSample) -> None:
        """Learn the cost from a step, and the margin from a step for which answers waited."""
        self._cost.observe(sample)
        duration_s = sample.duration_s
        if duration_s is None or not self._cost.is_ready or sample.num_requests == 0:
            return
        if sample.prefill_tokens > 0:
            clean_s = self._cost.predict_s(
                sample.num_requests,
                sample.verified_draft_tokens,
                sample.context_tokens,
                sample.draft_length,
            )
            token_s = max(duration_s - clean_s, 0.0) / sample.prefill_tokens
            share = _LEARN_SHARE if self._token_s > 0.0 else 1.0
            self._token_s += share * (token_s - self._token_s)
        if not self._is_decoding:
            return
        if duration_s > self._objective_s:
            self._margin = min(self._margin * (1.0 + _RISE), _MAX_MARGIN)
        else:
            self._margin = max(self._margin * (1.0 - _RISE * _MISSES), _MIN_MARGIN)

    def max_prefill_tokens(
        self, num_decoding: int, draft_tokens: int, context_tokens: int, length: int
    ) -> int | None:
        """Prompt tokens for a step that also decodes `num_decoding` requests, verifies
        `draft_tokens` and drafts `length`; None for no bound."""
        self._is_decoding = num_decoding > 0
        if num_decoding == 0 or not self._cost.is_ready:
            return None
        step_s = self._cost.predict_s(num_decoding, draft_tokens, context_tokens, length)
        token_s = self._token_s
        if token_s == 0.0:
            token_s = _FIRST_TOKEN_SHARE * step_s
        room_s = self._objective_s / self._margin - step_s
        return max(int(room_s / token_s), _LEAST_TOKENS)
