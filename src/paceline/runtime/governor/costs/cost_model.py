"""The duration of a step now: the table measured at the start, followed online.

    seconds = speed * (pass(n, c) + verify_factor * verify(n, w) + draft_factor * draft(n, k, c))

with n requests that have c tokens of context, w draft tokens verified per request, and k tokens
drafted for each. `pass`, `verify` (what it adds to verify drafts) and `draft` are the table's.

`speed` is common to all steps: a machine that slows down (its clock, another tenant) slows every
step, also the lengths that are not in use. It follows within some ten steps. The two other factors
correct the table's proportions, from the steps of all lengths and loads, and move slowly. They are
what decides on a draft length: a speed that is wrong does no harm. A correction of each entry of
the table by itself learns nothing of the lengths that are not in use, and was worse on recorded
drafts (docs/experiments/governor.md).

The logarithms of the three are followed by an extended Kalman filter. A residual counts as at most
three of its standard deviations, so that a stalled step changes little. Steps that hold prompt
tokens are left out, as the table has none. Nothing is drafted in order to measure a cost.
"""

from __future__ import annotations

import math
from operator import gt, mul

from paceline.foundation.capacity.cost_table import CostTable, LoadCosts, at
from paceline.runtime.governor.values import StepSample

Triple = tuple[float, float, float]

# Standard deviations of logarithms: (speed, verify factor, draft factor). All chosen empirically,
# on recorded drafts and durations with measured noise.
_SPREAD = (0.3, 0.05, 0.3)
"""Of a measured table. The draft model's small passes suffer most from other work on the machine:
they were seen to take twice as long relative to the target's, and sampled drafts a third longer."""
_ASSUMED_SPREAD = (30.0, 1.0, 1.0)
"""Of `assumed_table`, whose unit is unknown."""
_DRIFT = (0.03, 0.002, 0.01)
"""Per step."""
_ASSUMED_DRIFT = (0.03, 0.01, 0.01)
_MOST_SPREAD = (0.3, 0.1, 0.3)
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
        self._followed = _LogFactors(
            _SPREAD if is_measured else _ASSUMED_SPREAD,
            _DRIFT if is_measured else _ASSUMED_DRIFT,
            _MOST_SPREAD if is_measured else _ASSUMED_SPREAD,
        )
        self._loads: dict[int, LoadCosts] = {}
        self.has_unit = is_measured
        """Whether predictions are in seconds, and not only in proportion to them. Read only."""

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step without prompt tokens."""
        seconds, num_requests = sample.duration_s, sample.num_requests
        if not sample.is_clean or not seconds or not num_requests or sample.prefill_tokens:
            return
        costs = self.load(num_requests, sample.context_tokens)
        step_s = costs.step_s(sample.verified_draft_tokens, sample.draft_length)
        verify_s = at(costs.verify_s, sample.verified_draft_tokens / num_requests)
        draft_s = at(costs.draft_s, sample.draft_length)
        self._followed.learn(math.log(seconds / step_s), (verify_s / step_s, draft_s / step_s))
        self.has_unit = True

    def load(self, num_requests: int, context_tokens: int) -> LoadCosts:
        """What steps of this load take now."""
        found = self._loads.get(num_requests)
        if found is None:
            if len(self._loads) >= _MAX_KNOWN_SIZES:
                self._loads.clear()
            found = self._loads[num_requests] = self._table.load(num_requests)
        table = self._table
        excess = context_tokens - num_requests * table.context_tokens
        return found.changed(
            plain_s=table.context_s * excess,
            pass_s=table.draft_context_s * excess,
            factors=self._followed.factors,
        )


class _LogFactors:
    """The extended Kalman filter of the logarithms of the three factors."""

    def __init__(self, spread: Triple, drift: Triple, most_spread: Triple) -> None:
        self._logs = [0.0, 0.0, 0.0]
        self._covariance = [
            [s * s * (row == column) for column in range(3)] for row, s in enumerate(spread)
        ]
        self._drift = [s * s for s in drift]
        self._most_spread = most_spread
        self.factors: Triple = (1.0, 1.0, 1.0)
        """Of the whole step, of verifying and of drafting. Read only."""

    def learn(self, residual: float, shares: tuple[float, float]) -> None:
        """Learn the logarithm of a duration over its prediction; `shares` are those of verifying
        and drafting in the predicted step."""
        slopes = (1.0, *shares)
        rows = self._covariance
        for row in range(3):
            rows[row][row] += self._drift[row]
        spreads = [math.sqrt(rows[row][row]) for row in range(3)]
        if any(map(gt, spreads, self._most_spread)):
            bounds = [min(m / s, 1.0) for m, s in zip(self._most_spread, spreads, strict=True)]
            rows = [[bounds[i] * bounds[j] * rows[i][j] for j in range(3)] for i in range(3)]
        gains = [sum(map(mul, row, slopes)) for row in rows]
        variance = sum(map(mul, gains, slopes)) + _NOISE**2
        most = _MAX_DEVIATIONS * math.sqrt(variance)
        step = min(max(residual, -most), most) / variance
        self._covariance = [
            [value - gain * other / variance for value, other in zip(row, gains, strict=True)]
            for row, gain in zip(rows, gains, strict=True)
        ]
        self._logs = [log + step * gain for log, gain in zip(self._logs, gains, strict=True)]
        speed, verify, draft = map(math.exp, self._logs)
        self.factors = (speed, verify, draft)
