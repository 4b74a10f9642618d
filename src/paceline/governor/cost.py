"""How long a decode step takes, learned from the steps themselves.

    seconds = base + request * n + judge * [v > 0] + verify * v
            + context * c + pass * k + draft * n * k

with n requests, v draft tokens verified, c thousand tokens of context, and k tokens drafted per
request at the step's end. Verifying anything at all has a price of its own: the rejection sampler
runs instead of the plain one, for the whole batch. One observation at k = 3 so teaches k = 2 and
k = 5. The coefficients are non-negative: more work never takes less time.

Fit: weighted least squares on relative error, recursive, with forgetting. Steps of the same shape
(k, and n and v on a doubling scale) share one *cell*, which keeps a running mean of their features
and durations; the normal equations sum over cells. Plain recursive least squares with forgetting
loses what it knew about lengths not used lately (the matrix runs empty in those directions, and
noise fills them); here the last word of every shape stays, and fades slowly. A duration enters a
cell clipped to between half and twice the cell's mean, so one stall moves it little while a lasting
change gets through in a few steps; a young cell takes a shorter duration at once, since the first
use of a shape pays for things that never come again. The normal equations are solved by a few
sweeps of coordinate descent with clipping at zero, from where the last solve ended (Franc et al.,
2005).

Prior: the proportions measured on a two-core CPU with a 139M target (28 ms alone, +0.045 of that
per request, and so on), scaled to the first step seen, entered as faint observations that fade.

Assumes a linear cost. Fails where it is a staircase (captured CUDA graph sizes) or where a machine
is shared with other work that comes and goes within a memory: then cells measured in quiet and
busy times contradict, until each has been visited again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paceline.governor.values import StepSample

Floats = npt.NDArray[np.float64]

_NUM_FEATURES = 7

# Relative to the base: base, request, judge, verify, 1000 tokens of context, pass, draft token.
_PRIOR = (0.95, 0.045, 0.02, 0.03, 0.01, 0.05, 0.005)
_PRIOR_SHAPES = ((1, 0), (1, 4), (4, 2), (8, 0), (8, 4), (32, 1))
_PRIOR_WEIGHT = 0.2

_CELL_MEMORY = 24.0
"""Samples a cell averages over: a shift shows in about as many steps. Chosen by hand."""
_YOUNG_SAMPLES = 4.0
"""Of the first few the shortest counts. Seen: the first draft of a start took 29 ms, the next 7;
with the mean of such samples a governor stayed off on text where drafting doubled the rate."""
_KEEP = 0.9995
"""Per clean step, for all cells: one not visited for 2000 steps has lost two thirds. By hand."""
# Fading is done by giving newer samples more weight, which spares touching the sums every step;
# at this weight they are rebuilt.
_MAX_WEIGHT = 1e6
_CLIP = 2.0
_MAX_CELLS = 128
_SWEEPS = 2
_LEAST_STEP_S = 1e-9
"""So that a rate can be computed of it."""


class CostModel:
    """Learns step durations and predicts them. Not ready before the first clean step."""

    def __init__(self) -> None:
        self._coefficients = [0.0] * _NUM_FEATURES
        # Features and duration beside each other, so that one product sums both sides of the
        # normal equations: rows are equations, the last column is their right side.
        self._sums = np.zeros((_NUM_FEATURES + 1, _NUM_FEATURES + 1))
        self._cells: dict[tuple[int, int, int], _Cell] = {}
        self._measured: set[tuple[int, int]] = set()
        self._weight_now = 1.0
        self.is_ready = False

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step with a duration; ignore every other."""
        if not sample.is_clean or not sample.duration_s or sample.num_requests == 0:
            return
        step = _step(
            sample.num_requests,
            sample.verified_draft_tokens,
            sample.context_tokens,
            sample.draft_length,
            sample.duration_s,
        )
        if not self.is_ready:
            self._start_from(step)
        self._weight_now /= _KEEP
        if self._weight_now > _MAX_WEIGHT:
            self._rescale()
        key = (
            sample.draft_length,
            sample.num_requests.bit_length(),
            sample.verified_draft_tokens.bit_length(),
        )
        cell = self._cells.pop(key, None)
        if cell is None:
            cell = _Cell(step, sample.duration_s)
            if len(self._cells) >= _MAX_CELLS:
                oldest = self._cells.pop(next(iter(self._cells)))
                self._sums -= oldest.entered
            self._measured = {key[:2], *(known[:2] for known in self._cells)}
        else:
            self._sums -= cell.entered
            cell.blend(step, sample.duration_s)
        self._sums += cell.enter(cell.num_samples * self._weight_now)
        self._cells[key] = cell  # last in the order: most recently visited
        self._solve()

    def predict_s(
        self,
        num_requests: int,
        verified_draft_tokens: float,
        context_tokens: int,
        length: int,
        *,
        verifying_fraction: float | None = None,
    ) -> float:
        """Seconds of a clean step of this shape; 0 before the first clean step.

        `verifying_fraction`: the chance that there is anything to verify; None takes
        `verified_draft_tokens` for a count of one step, not a mean over many.
        """
        if verifying_fraction is None:
            verifying_fraction = float(verified_draft_tokens > 0)
        base, request, judge, verify, context, draft_pass, draft = self._coefficients
        return (
            base
            + request * num_requests
            + judge * verifying_fraction
            + verify * verified_draft_tokens
            + context * context_tokens * 1e-3
            + draft_pass * length
            + draft * num_requests * length
        )

    def predict_lengths_s(
        self,
        num_requests: int,
        drafts: Sequence[float],
        context_tokens: int,
        *,
        verifying_fraction: float,
    ) -> list[float]:
        """The same for every draft length from 0 on at once: `drafts[k]` are the draft tokens
        verified per request at length k, shape (num_lengths,); at length 0 nothing is. Never 0."""
        base, request, judge, verify, context, draft_pass, draft = self._coefficients
        undrafted_s = base + request * num_requests + context * context_tokens * 1e-3
        undrafted_s = max(undrafted_s, _LEAST_STEP_S)
        drafting_s = undrafted_s + judge * verifying_fraction
        verify_s = verify * num_requests
        length_s = draft_pass + draft * num_requests
        seconds = [drafting_s + verify_s * n + length_s * k for k, n in enumerate(drafts)]
        seconds[0] = undrafted_s
        return seconds

    def is_measured(self, num_requests: int, length: int) -> bool:
        """Whether a step of about this size was seen with this draft length."""
        return (length, num_requests.bit_length()) in self._measured

    def _start_from(self, step: Floats) -> None:
        prior = np.asarray(_PRIOR)
        prior *= step[-1] / (prior @ step[:-1])
        self._coefficients = prior.tolist()
        for num_requests, length in _PRIOR_SHAPES:
            shape = _step(num_requests, num_requests * length, 0, length, 0.0)
            shape[-1] = prior @ shape[:-1]
            self._sums += _entry(shape, _PRIOR_WEIGHT)
        self.is_ready = True

    def _rescale(self) -> None:
        """Bring the growing weights back to 1, and the sums rebuilt from the cells with them."""
        self._sums[:] = 0.0
        for cell in self._cells.values():
            self._sums += cell.enter(cell.entered_weight / self._weight_now)
        self._weight_now = 1.0

    def _solve(self) -> None:
        equations = self._sums[:-1].tolist()
        c0, c1, c2, c3, c4, c5, c6 = coefficients = self._coefficients
        for _ in range(_SWEEPS):
            for index, row in enumerate(equations):
                diagonal = row[index]
                if diagonal <= 1e-12:
                    continue
                g0, g1, g2, g3, g4, g5, g6, moment = row
                gap = moment - (g0 * c0 + g1 * c1 + g2 * c2 + g3 * c3 + g4 * c4 + g5 * c5 + g6 * c6)
                coefficients[index] = max(coefficients[index] + gap / diagonal, 0.0)
                c0, c1, c2, c3, c4, c5, c6 = coefficients


class _Cell:
    """Running means of the steps of one shape, and what they have put into the sums."""

    __slots__ = ("_duration_s", "_mean", "entered", "entered_weight", "num_samples")

    def __init__(self, step: Floats, duration_s: float) -> None:
        self._mean = step
        self._duration_s = duration_s
        self.num_samples = 1.0

    def blend(self, step: Floats, duration_s: float) -> None:
        is_young = self.num_samples < _YOUNG_SAMPLES
        self.num_samples = min(self.num_samples + 1.0, _CELL_MEMORY)
        share = 1.0 / self.num_samples
        before_s = self._duration_s
        if is_young and duration_s < before_s:
            before_s, share = duration_s, 1.0
        clipped_s = min(max(duration_s, before_s / _CLIP), before_s * _CLIP)
        self._duration_s = before_s + share * (clipped_s - before_s)
        step -= self._mean
        step *= share
        self._mean += step
        self._mean[-1] = self._duration_s

    def enter(self, weight: float) -> Floats:
        """What it puts into the sums with this weight."""
        self.entered_weight = weight
        self.entered = _entry(self._mean, weight)
        return self.entered


def _step(
    num_requests: int,
    verified_draft_tokens: float,
    context_tokens: int,
    length: int,
    duration_s: float,
) -> Floats:
    """The features of a step and its duration, shape (8,)."""
    return np.array(
        (
            1.0,
            num_requests,
            verified_draft_tokens > 0,
            verified_draft_tokens,
            context_tokens * 1e-3,
            length,
            num_requests * length,
            duration_s,
        )
    )


def _entry(step: Floats, weight: float) -> Floats:
    """Its share of the sums, (8, 8). The error is relative: a long step is no better known."""
    scaled = step * (math.sqrt(weight) / step[-1])
    entry: Floats = scaled * scaled[:, None]
    return entry
