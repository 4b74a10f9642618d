"""A regularised, non-negative, forgetting least-squares fit over cells of similar steps.

The fit is weighted least squares on relative error, recursive, with forgetting. Steps of the same
shape share one *cell*, which keeps a running mean of their features and durations; the normal
equations sum over cells. Plain recursive least squares with forgetting loses what it knew about
shapes not used recently: the matrix decays in those directions, and noise takes over. Here the last
mean of every shape stays, and fades slowly. The mean of durations is geometric: with the factor of
`machine_speed`, a filter of logarithms too, it then follows noise without a drift between the two.
A duration that the caller reports as an outlier enters its cell only after `_MAX_OUTLIERS` others
of that shape in a row, clipped to between half and twice the cell's mean, so a stall moves nothing
while a lasting change of one shape gets through. A young cell takes a much shorter duration at
once, since the first use of a shape pays one-time costs.

Prior: each coefficient lies near a given mean, within a given spread; the prior never fades.

Solved exactly, with an active set for the coefficients held at zero. Every few steps the one that
the data pull up most strongly is released (Lawson and Hanson, 1974). A solution that is not
finished within one step is continued in the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Shape = tuple[int, int, int, int]
"""Which cell a step belongs to. The last number is above 0 for steps with prompt tokens, whose
cells are the first to be evicted."""

_CELL_MEMORY = 24.0
"""Samples a cell averages over: a shift shows in about as many steps. Chosen empirically."""
_YOUNG_SAMPLES = 4.0
_COLD = 0.8
"""A duration shorter by more than this replaces the mean of a cell's first few samples. Measured:
the first draft after a start took 29 ms, the next 7 ms; with the mean of such samples a governor
stayed off on text where drafting doubled the rate. The shortest of samples that differ by noise
would make shapes that were hardly ever visited look cheap."""
_KNOWN_SAMPLES = 8.0
"""From here on a cell's mean says what its steps take."""
_MAX_OUTLIERS = 3
"""In a row, of one shape; any more are what its steps take now."""
_PROMPT_CELL_SHARE = 0.25
"""Weight of a step with prompt tokens: their time depends on more than their number."""
_KEEP = 0.9995
"""Per step, for all cells: one not visited for 2000 steps has lost two thirds of its weight.
Chosen empirically."""
# Fading gives newer samples more weight, which avoids scaling the sums in every step; at this
# weight they are rebuilt.
_MAX_WEIGHT = 1e6
_CLIP = 2.0
_MAX_CELLS = 192
_MAX_SOLVES = 3
_RELEASE_EVERY = 4
_HOLD = 1e12
"""Factor on a coefficient's own weight at which nothing moves it from zero."""


_RIDGE = 1.0 + 1e-9
"""Factor on the diagonal, so that the equations have a solution even where one absurdly short
duration outweighs the prior."""


class CellRegression:
    """Fits durations to features; shape (num_features,) each."""

    def __init__(self, num_features: int, num_nonnegative: int) -> None:
        """The first `num_nonnegative` coefficients are never negative."""
        self._num_nonnegative = num_nonnegative
        # Features and duration beside each other, so that one product sums both sides of the
        # normal equations: rows are equations, the last column is their right side.
        self._sums = np.zeros((num_features + 1, num_features + 1))
        self._prior = np.zeros((num_features, num_features + 1))
        self._held: list[int] = []  # coefficients at zero
        self._num_solved = 0
        self._coefficients = [0.0] * num_features
        self._solution: Floats = np.zeros(num_features)  # the same as an array
        self._cells: dict[Shape, _Cell] = {}
        self._weight_now = 1.0

    def set_prior(self, mean: Floats, weight: Floats, unit_s: float) -> None:
        """Hold the coefficients to `mean`, each with a weight against one sample's; both in units
        of `unit_s` seconds. A later call replaces it."""
        weight = weight / unit_s**2
        self._prior[:, :-1] = np.diag(weight)
        self._prior[:, -1] = weight * mean * unit_s
        if not self._cells:
            self._solution = mean * unit_s
            self._coefficients = self._solution.tolist()

    def expected_s(self, shape: Shape, step: Floats) -> float | None:
        """The duration of a step by those of its own shape, corrected for its features; None for
        a shape that is not well known."""
        cell = self._cells.get(shape)
        if cell is None or cell.num_samples < _KNOWN_SAMPLES:
            return None
        fitted_s = self.fitted_s(step)
        cell_s = float(self._solution @ cell.mean[:-1])
        return cell.mean_s * (fitted_s / cell_s if fitted_s > 0.0 < cell_s else 1.0)

    def fitted_s(self, step: Floats) -> float:
        """The duration of a step by the coefficients; 0 before there is a prior."""
        return float(self._solution @ step[:-1])

    def num_samples(self, shape: Shape) -> float:
        """How many steps of a shape its cell averages over; 0 without a cell."""
        cell = self._cells.get(shape)
        return 0.0 if cell is None else cell.num_samples

    def mean_s(self, shape: Shape) -> float:
        """The mean duration of the steps of a shape with a cell."""
        return self._cells[shape].mean_s

    @property
    def shapes(self) -> Iterable[Shape]:
        """The shapes with a cell."""
        return self._cells

    def add(self, shape: Shape, step: Floats, *, is_outlier: bool = False) -> bool:
        """Enter a step, its features followed by its duration, shape (num_features + 1,). Takes
        the array over. Returns whether the shape is new.

        `is_outlier`: the duration was unexpected; it counts when the shape repeats it.
        """
        self._weight_now /= _KEEP
        if self._weight_now > _MAX_WEIGHT:
            self._rescale()
        cell = self._cells.pop(shape, None)
        if cell is not None and not cell.accepts(is_outlier=is_outlier):
            self._cells[shape] = cell
            return False
        is_new = cell is None
        if cell is None:
            cell = _Cell(step)
            if len(self._cells) >= _MAX_CELLS:
                self._sums -= self._cells.pop(self._to_evict()).entered
        else:
            self._sums -= cell.entered
            cell.blend(step)
        share = _PROMPT_CELL_SHARE if shape[3] else 1.0
        self._sums += cell.enter(share * cell.num_samples * self._weight_now)
        self._cells[shape] = cell  # last in the order: most recently visited
        return is_new

    def solve(self) -> list[float]:
        """The coefficients after the steps entered so far, shape (num_features,)."""
        equations = self._sums[:-1] * (1.0 / self._weight_now)
        equations += self._prior
        gram, right_side = equations[:, :-1], equations[:, -1]
        equations.reshape(-1)[:: len(equations) + 2] *= _RIDGE  # the diagonal of `gram`
        held = self._held
        self._num_solved += 1
        if held and self._num_solved % _RELEASE_EVERY == 0:
            pull = (right_side - gram @ self._solution)[held]
            strongest = int(pull.argmax())
            if pull[strongest] > 0.0:
                held.pop(strongest)
        for index in held:
            gram[index, index] *= _HOLD
        now = self._coefficients
        for _ in range(_MAX_SOLVES):
            solution = np.asarray(np.linalg.solve(gram, right_side), dtype=np.float64)
            found: list[float] = solution.tolist()
            for index in held:
                found[index] = 0.0
            bounded = found[: self._num_nonnegative]
            if min(bounded) >= 0.0:
                now = found
                self._solution = solution  # the held ones are zero but for rounding
                break
            # Move towards it until the first coefficient reaches zero, and hold that one there.
            share, first = min(
                (a / (a - b), index)
                for index, (a, b) in enumerate(zip(now, bounded, strict=False))
                if b < 0.0
            )
            now = [a + share * (b - a) for a, b in zip(now, found, strict=True)]
            now[first] = 0.0
            held.append(first)
            gram[first, first] *= _HOLD
        else:
            self._solution = np.array(now)
        self._coefficients = now
        return now

    def _to_evict(self) -> Shape:
        """The shape not visited for longest, of those with prompt tokens if there are any: these
        come in many shapes and would evict the others."""
        return next((shape for shape in self._cells if shape[3] > 0), next(iter(self._cells)))

    def _rescale(self) -> None:
        """Bring the growing weights back to 1, with the sums rebuilt from the cells."""
        self._sums[:] = 0.0
        for cell in self._cells.values():
            self._sums += cell.enter(cell.entered_weight / self._weight_now)
        self._weight_now = 1.0


class _Cell:
    """Running means of the steps of one shape, and their share of the sums."""

    __slots__ = ("_num_outliers", "entered", "entered_weight", "mean", "num_samples")

    def __init__(self, step: Floats) -> None:
        self.mean = step
        self.num_samples = 1.0
        self._num_outliers = 0

    @property
    def mean_s(self) -> float:
        """Mean duration."""
        return self.mean.item(-1)

    def accepts(self, *, is_outlier: bool) -> bool:
        """Whether a duration counts: an expected one, or one of several outliers in a row."""
        self._num_outliers = self._num_outliers + 1 if is_outlier else 0
        return not is_outlier or self._num_outliers > _MAX_OUTLIERS

    def blend(self, step: Floats) -> None:
        is_young = self.num_samples < _YOUNG_SAMPLES
        self.num_samples = min(self.num_samples + 1.0, _CELL_MEMORY)
        share = 1.0 / self.num_samples
        duration_s, before_s = step.item(-1), self.mean.item(-1)
        if is_young and duration_s < _COLD * before_s:
            before_s, share = duration_s, 1.0
        clipped_s = min(max(duration_s, before_s / _CLIP), before_s * _CLIP)
        blended_s = before_s * (clipped_s / before_s) ** share
        step -= self.mean
        step *= share
        self.mean += step
        self.mean[-1] = blended_s

    def enter(self, weight: float) -> Floats:
        """The cell's share of the sums with this weight."""
        self.entered_weight = weight
        self.entered = _share_of_sums(self.mean, weight)
        return self.entered


def _share_of_sums(step: Floats, weight: float) -> Floats:
    """The error is relative to the duration: a long step is known no better than a short one."""
    scaled = step * (math.sqrt(weight) / step[-1])
    share: Floats = scaled * scaled[:, None]
    return share
