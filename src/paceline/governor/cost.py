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

from operator import mul

from paceline.governor.values import StepSample

_NUM_FEATURES = 7
Features = tuple[float, float, float, float, float, float, float]

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


class CostModel:
    """Learns step durations and predicts them. Not ready before the first clean step."""

    def __init__(self) -> None:
        self._coefficients = [0.0] * _NUM_FEATURES
        self._gram = [[0.0] * _NUM_FEATURES for _ in range(_NUM_FEATURES)]
        self._moment = [0.0] * _NUM_FEATURES
        self._cells: dict[tuple[int, int, int], _Cell] = {}
        self._weight_now = 1.0
        self.is_ready = False

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step with a duration; ignore every other."""
        if not sample.is_clean or not sample.duration_s or sample.num_requests == 0:
            return
        features = _features(
            sample.num_requests,
            sample.verified_draft_tokens,
            sample.context_tokens,
            sample.draft_length,
        )
        if not self.is_ready:
            self._start_from(features, sample.duration_s)
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
            cell = _Cell(features, sample.duration_s)
            if len(self._cells) >= _MAX_CELLS:
                oldest = self._cells.pop(next(iter(self._cells)))
                self._add(oldest.features, oldest.duration_s, -oldest.entered_weight)
        else:
            self._add(cell.features, cell.duration_s, -cell.entered_weight)
            cell.blend(features, sample.duration_s)
        cell.entered_weight = cell.num_samples * self._weight_now
        self._add(cell.features, cell.duration_s, cell.entered_weight)
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

    def is_measured(self, num_requests: int, length: int) -> bool:
        """Whether a step of about this size was seen with this draft length."""
        size = num_requests.bit_length()
        return any(key[0] == length and key[1] == size for key in self._cells)

    def _start_from(self, features: Features, duration_s: float) -> None:
        relative = sum(p * x for p, x in zip(_PRIOR, features, strict=True))
        self._coefficients = [p * duration_s / relative for p in _PRIOR]
        for num_requests, length in _PRIOR_SHAPES:
            shape = _features(num_requests, num_requests * length, 0, length)
            expected_s = sum(c * x for c, x in zip(self._coefficients, shape, strict=True))
            self._add(shape, expected_s, _PRIOR_WEIGHT)
        self.is_ready = True

    def _rescale(self) -> None:
        """Bring the growing weights back to 1, and the sums rebuilt from the cells with them."""
        self._gram = [[0.0] * _NUM_FEATURES for _ in range(_NUM_FEATURES)]
        self._moment = [0.0] * _NUM_FEATURES
        for cell in self._cells.values():
            cell.entered_weight /= self._weight_now
            self._add(cell.features, cell.duration_s, cell.entered_weight)
        self._weight_now = 1.0

    def _add(self, features: Features | list[float], duration_s: float, weight: float) -> None:
        weight /= duration_s * duration_s  # relative error: a long step is no better known
        for index, x in enumerate(features):
            if x != 0.0:
                weighted = weight * x
                self._moment[index] += weighted * duration_s
                row = self._gram[index]
                self._gram[index] = [r + weighted * y for r, y in zip(row, features, strict=True)]

    def _solve(self) -> None:
        coefficients = self._coefficients
        for _ in range(_SWEEPS):
            for index, row in enumerate(self._gram):
                diagonal = row[index]
                if diagonal <= 1e-12:
                    continue
                gap = self._moment[index] - sum(map(mul, row, coefficients))
                coefficients[index] = max(coefficients[index] + gap / diagonal, 0.0)


class _Cell:
    """Running means of the steps of one shape."""

    __slots__ = ("duration_s", "entered_weight", "features", "num_samples")

    def __init__(self, features: Features, duration_s: float) -> None:
        self.features = list(features)
        self.duration_s = duration_s
        self.num_samples = 1.0
        self.entered_weight = 0.0

    def blend(self, features: Features, duration_s: float) -> None:
        is_young = self.num_samples < _YOUNG_SAMPLES
        self.num_samples = min(self.num_samples + 1.0, _CELL_MEMORY)
        share = 1.0 / self.num_samples
        if is_young and duration_s < self.duration_s:
            self.duration_s, share = duration_s, 1.0
        clipped = min(max(duration_s, self.duration_s / _CLIP), self.duration_s * _CLIP)
        self.duration_s += share * (clipped - self.duration_s)
        self.features = [
            old + share * (new - old) for old, new in zip(self.features, features, strict=True)
        ]


def _features(
    num_requests: int, verified_draft_tokens: float, context_tokens: int, length: int
) -> Features:
    return (
        1.0,
        float(num_requests),
        float(verified_draft_tokens > 0),
        float(verified_draft_tokens),
        context_tokens * 1e-3,
        float(length),
        float(num_requests * length),
    )
