"""The duration of a step now: the table measured at the start, followed online.

    seconds = speed * (pass(n, c) + verify_factor * verify(n, w) + draft_factor * draft(n, k, c))

with n requests that have c tokens of context, w draft tokens verified per request, and k tokens
drafted for each. `pass`, `verify` (what it adds to verify drafts) and `draft` are the table's.

`speed` is common to all steps: a machine that slows down (its clock, another tenant) slows every
step, also the lengths that are not in use. It follows within some ten steps. The two other factors
correct the table's proportions and move slowly, from the steps of all lengths and loads. They are
what decides on a draft length: a speed that is wrong does no harm. A correction of each entry of
the table by itself learns nothing of the lengths that are not in use, and was worse on recorded
drafts (docs/experiments/governor.md).

The logarithms of the three are followed by an extended Kalman filter. A residual counts as at most
three of its standard deviations, so that a stalled step changes little. Steps that hold prompt
tokens are left out, as the table has none. Nothing is drafted in order to measure a cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paceline.governor.costs.cost_table import LEAST_STEP_S, CostTable, at
from paceline.governor.values import StepSample

# Standard deviations of logarithms: (speed, verify factor, draft factor). All chosen empirically,
# on recorded drafts and durations with measured noise.
_SPREAD = np.array([0.3, 0.05, 0.05])
"""Of a measured table."""
_ASSUMED_SPREAD = np.array([30.0, 1.0, 1.0])
"""Of `assumed_table`, whose unit is unknown."""
_DRIFT = np.array([0.03, 0.002, 0.002])
"""Per step."""
_ASSUMED_DRIFT = np.array([0.03, 0.01, 0.01])
_MOST_SPREAD = np.array([0.3, 0.1, 0.1])
"""While one length and load lasts, steps do not distinguish the three. Without a bound the
uncertainty would grow for hours, until the noise of single steps moved the proportions by 30 %."""
_NOISE = 0.1
"""Of one duration."""
_MAX_DEVIATIONS = 3.0
_MAX_KNOWN_SIZES = 512

_REQUEST, _VERIFY, _TOKEN = 0.005, 0.02, 0.02
_FIRST_PASS, _PASS, _DRAFT = 0.05, 0.05, 0.002


def assumed_table(max_draft_length: int) -> CostTable:
    """Proportions between those of two-core CPUs and of data-centre GPUs, in units of a step of one
    request. For engines that could not be measured."""
    sizes, lengths = (1, 256), tuple(range(max_draft_length + 1))

    def verify(num_requests: int, width: int) -> float:
        return 1.0 + num_requests * (_REQUEST + _TOKEN * width) + (_VERIFY if width else 0.0)

    def draft(num_requests: int, length: int) -> float:
        passes = _FIRST_PASS + _PASS * (length - 1) if length else 0.0
        return passes + _DRAFT * num_requests * length

    return CostTable(
        sizes,
        lengths,
        tuple(tuple(verify(size, length) for length in lengths) for size in sizes),
        tuple(tuple(draft(size, length) for length in lengths) for size in sizes),
    )


class CostModel:
    """Predicts the durations of steps; learns from those that were."""

    def __init__(self, table: CostTable | None, max_draft_length: int) -> None:
        """`table` is None where none was measured."""
        is_measured = table is not None
        self._table = table if table is not None else assumed_table(max_draft_length)
        self._max = max_draft_length
        self._logs = np.zeros(3)
        self._covariance = np.diag((_SPREAD if is_measured else _ASSUMED_SPREAD) ** 2)
        self._drift = np.diag((_DRIFT if is_measured else _ASSUMED_DRIFT) ** 2)
        self._most_spread = _MOST_SPREAD if is_measured else _ASSUMED_SPREAD
        self._speed = self._verify_factor = self._draft_factor = 1.0
        self._rows: dict[int, tuple[list[float], list[float]]] = {}
        self.has_unit = is_measured
        """Whether predictions are in seconds, and not only in proportion to them. Read only."""

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step without prompt tokens."""
        seconds, num_requests = sample.duration_s, sample.num_requests
        if not sample.is_clean or not seconds or not num_requests or sample.prefill_tokens:
            return
        step_s, verify_s, draft_s = self._sample_parts_s(sample)
        slopes = np.array([1.0, verify_s / step_s, draft_s / step_s])
        self._covariance += self._drift
        spread = np.sqrt(self._covariance.diagonal())
        if (spread > self._most_spread).any():
            bound = np.minimum(self._most_spread / spread, 1.0)
            self._covariance *= np.outer(bound, bound)
        gains = self._covariance @ slopes
        variance = float(slopes @ gains) + _NOISE**2
        residual = math.log(seconds / (self._speed * step_s))
        most = _MAX_DEVIATIONS * math.sqrt(variance)
        gains /= variance
        self._covariance -= np.outer(gains, slopes @ self._covariance)
        self._logs += min(max(residual, -most), most) * gains
        self._speed, self._verify_factor, self._draft_factor = np.exp(self._logs).tolist()
        self.has_unit = True

    def predicted_s(self, sample: StepSample) -> float:
        """Seconds of this step by the model, without prompt tokens or catching up."""
        return self._speed * self._sample_parts_s(sample)[0]

    def lengths_s(
        self, num_requests: int, context_tokens: int, widths: Sequence[float]
    ) -> list[float]:
        """Seconds of a step at each draft length from 0 on, shape (num_lengths,).

        `widths` has the tokens per request that a step verifies at each length; prompt tokens count
        as such.
        """
        verify, draft = self._rows_of(num_requests)
        excess = context_tokens - num_requests * self._table.context_tokens
        plain_s = max(verify[0] + self._table.context_s * excess, LEAST_STEP_S)
        pass_context_s = self._table.draft_context_s * excess
        return [
            self._speed
            * max(
                plain_s
                + self._verify_factor * (at(verify, width) - verify[0])
                + self._draft_factor * max(draft[length] + pass_context_s * length, 0.0),
                LEAST_STEP_S,
            )
            for length, width in enumerate(widths)
        ]

    def steps_s(
        self,
        num_requests: int,
        context_tokens: int,
        verified_tokens: Sequence[float],
        num_passes: int,
    ) -> list[float]:
        """Seconds of steps that verify these numbers of tokens, and draft in `num_passes`; of the
        shape of `verified_tokens`."""
        verify, _ = self._rows_of(num_requests)
        plain_s, _, draft_s = self._parts_s(num_requests, context_tokens, 0.0, num_passes)
        least_s = plain_s - self._verify_factor * verify[0] + self._draft_factor * draft_s
        factor = self._verify_factor
        return [
            self._speed * max(least_s + factor * at(verify, tokens / num_requests), LEAST_STEP_S)
            for tokens in verified_tokens
        ]

    def drafts_s(self, num_requests: int, context_tokens: int) -> list[float]:
        """Seconds that 0, 1, … passes of the draft model add, shape (max_draft_length + 1,)."""
        _, draft = self._rows_of(num_requests)
        excess = context_tokens - num_requests * self._table.context_tokens
        factor, pass_s = self._speed * self._draft_factor, self._table.draft_context_s * excess
        return [factor * max(seconds + pass_s * num, 0.0) for num, seconds in enumerate(draft)]

    def first_verified_s(self, num_requests: int) -> float:
        """Seconds that it adds to verify anything at all, beyond a price per token: the rejection
        sampler runs instead of the plain one."""
        verify, _ = self._rows_of(num_requests)
        if len(verify) < 3:
            return 0.0
        added_s = 2.0 * verify[1] - verify[0] - verify[2]
        return self._speed * self._verify_factor * max(added_s, 0.0)

    def _sample_parts_s(self, sample: StepSample) -> tuple[float, float, float]:
        """The whole step, and what verifying and drafting add to it, at speed 1."""
        plain_s, verify_s, draft_s = self._parts_s(
            sample.num_requests,
            sample.context_tokens,
            sample.verified_draft_tokens / sample.num_requests,
            sample.draft_length,
        )
        verify_s *= self._verify_factor
        draft_s *= self._draft_factor
        return max(plain_s + verify_s + draft_s, LEAST_STEP_S), verify_s, draft_s

    def _parts_s(
        self, num_requests: int, context_tokens: int, width: float, draft_length: int
    ) -> tuple[float, float, float]:
        verify, draft = self._rows_of(num_requests)
        excess = context_tokens - num_requests * self._table.context_tokens
        draft_s = at(draft, draft_length) + self._table.draft_context_s * excess * draft_length
        return (
            max(verify[0] + self._table.context_s * excess, LEAST_STEP_S),
            at(verify, width) - verify[0],
            max(draft_s, 0.0),
        )

    def _rows_of(self, num_requests: int) -> tuple[list[float], list[float]]:
        """The table's rows for this many requests, up to the maximum length."""
        rows = self._rows.get(num_requests)
        if rows is None:
            if len(self._rows) >= _MAX_KNOWN_SIZES:
                self._rows.clear()
            draft = self._table.draft_row(num_requests)
            rows = (
                self._table.verify_row(num_requests),
                [at(draft, length) for length in range(self._max + 1)],
            )
            self._rows[num_requests] = rows
        return rows
