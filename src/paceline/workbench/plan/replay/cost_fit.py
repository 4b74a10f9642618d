"""Fit the time of an engine step to the clean cells of recordings.

Least squares with a prior. What a recording leaves undetermined (only one draft length was run, or
only one number of requests), the prior decides, and its spread shows in the interval: every
replicate is fitted to another draw of the recording, with the prior's mean itself drawn from the
prior. For a linear model with normal noise the replicates are draws from the posterior (Osband et
al., "Randomized Prior Functions", NeurIPS 2018, section 3).

The machine's speed changes over time, so steps of the same time deviate together. A recording is
divided into runs of blocks, at most 30 s each. The steps of a run share a factor on their time,
normal, whose spread is that of the blocks. It is integrated out: with the work A and the times y of
a run, both relative to the expected times, and the weights W of its cells,

    information = A' W A - c (A' W 1) (A' W 1)',    c = pace² / (1 + pace² 1' W 1)

and the same with y in place of the last A. Hence the coefficients depend little on load that
changed together with the speed, and a replicate draws runs rather than steps or blocks.

Disturbed steps, several times as long as others, count little (`robust_fit`); the time that they
take is in the level of all coefficients.

The speed of another phase deviates from that of the recording as both deviate from the machine's
mean. Where the blocks of a recording resemble the ones before them, it has fewer independent ones
than blocks: with the correlation r of successive ones, n (1 - r) / (1 + r) of n (Bayley and
Hammersley, "The Effective Number of Independent Observations", 1946), and at most one per minute.
So its mean is uncertain, and it has seen less than the whole spread.

A real engine's time is not linear in its work. How far shapes deviate from the fit, beyond the
noise of their steps, is estimated, and taken as the error of a phase, whose shapes resemble each
other.

A second recording, of another drafter on the same machine, shares everything but the two
coefficients of the draft model. Its pace relative to the first is estimated too, with a prior.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.workbench.plan.replay.cost import DRAFT_PRIOR, SHARED_PRIOR, prior_of
from paceline.workbench.plan.replay.least_squares import solve
from paceline.workbench.plan.replay.robust_fit import STEP_NOISE, fit_robustly
from paceline.workbench.plan.replay.step_data import StepData

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LEAST_DRIFT = 0.01
"""Relative standard deviation of a machine's speed from phase to phase, at least."""
_USUAL_DRIFT, _USUAL_FREEDOM = 0.025, 2.0
"""Prior of the same, and the blocks that it counts for: a short recording does not see speed that
changes slowly. Chosen empirically: less than the 5.5 % from minute to minute of two shared cores
(docs/experiments/comparisons.md); with 0.02 the intervals covered 87 % of 90 held-out phases."""
_BLOCKS_APART = 12.0
"""Blocks of 5 s that count as one at least, a minute. Chosen empirically: on two shared cores a
second's pace deviated by 12 % and a minute's still by 5.5 %."""
_USUAL_MISFIT = 0.01
"""Of a shape's time from the fit, for the weights of shapes only. Chosen empirically."""
_NAMES = list(SHARED_PRIOR)
_SHAPE = [_NAMES.index(name) for name in ("request", "judge", "mixed")]
_TOKENS, _FIRST_DRAFT = _NAMES.index("token"), len(_NAMES)
"""Columns of the features; the passes of each drafter are every second one after the shared."""


@dataclass(frozen=True, slots=True)
class CostFit:
    """The estimate, and what its replicates are drawn from.

    The unknowns are the coefficients of the features, which are not negative, and the paces of all
    recordings but the first, relative to it.
    """

    coefficients: Floats
    """The estimate, (num_features,)"""
    level: float
    """Time of all steps of the first recording / the same by the fit before it is multiplied by
    this: disturbed steps count little in the fit, but they take time."""
    pace_deviation: float
    """Relative standard deviation of the machine's speed, from block to block. It is taken for that
    from phase to phase too, which is cautious: longer averages vary less."""
    num_independent_blocks: float
    """See the module; at least 1."""
    misfit: float
    """Relative standard deviation of a shape's time from the fit, without its steps' noise."""
    prior_mean: Floats
    """(num_unknowns,)"""
    prior_spread: Floats
    information: Floats
    """Of each run, (num_runs, num_unknowns, num_unknowns)"""
    moments: Floats
    """(num_runs, num_unknowns)"""
    recording: Ints
    """Of each run, (num_runs,)"""

    @property
    def phase_deviation(self) -> float:
        """Relative standard deviation of the speed of a phase from that by the coefficients."""
        pace = self.pace_deviation * math.sqrt(1.0 + 1.0 / self.num_independent_blocks)
        return math.hypot(pace, self.misfit)

    def draw(self, random: np.random.Generator) -> Floats:
        """The coefficients of one replicate, (num_features,)."""
        drawn = np.zeros(len(self.recording))
        for number in np.unique(self.recording):
            runs = np.flatnonzero(self.recording == number)
            drawn[runs] = random.multinomial(len(runs), np.full(len(runs), 1 / len(runs)))
        mean = self.prior_mean + self.prior_spread * random.standard_normal(len(self.prior_mean))
        num_features = len(self.coefficients)
        mean[:num_features] = np.maximum(mean[:num_features], 0.0)
        return self.level * solve(
            (drawn[:, None, None] * self.information).sum(axis=0),
            drawn @ self.moments,
            mean,
            self.prior_spread,
            num_features,
        )


def fit_cost(data: StepData) -> CostFit:
    """Fit the coefficients to at least one cell."""
    num_features = data.features.shape[1]
    num_drafters = (num_features - len(SHARED_PRIOR)) // len(DRAFT_PRIOR)
    num_paces = num_drafters - 1
    unit_s = float(data.seconds.min())
    prior = prior_of(num_drafters, unit_s, has_tables=data.has_tables)
    rough = fit_robustly(data, prior[:, 0], prior[:, 1])
    expected = rough.expected_s
    pace_deviation, num_independent = _drift(data, expected)

    is_of = data.recording[:, None] == np.arange(1, num_drafters)
    work = np.hstack([data.features / expected[:, None], is_of])
    times = data.seconds / expected
    begins = np.flatnonzero(np.diff(data.run, prepend=-1)).tolist()
    runs = [
        _of_run(work[begin:end], times[begin:end], rough.weights[begin:end], pace_deviation)
        for begin, end in itertools.pairwise([*begins, len(times)])
    ]
    information = np.array([information for information, _ in runs])
    moments = np.array([moment for _, moment in runs])

    # Each of the two paces that are compared deviates.
    prior_spread = np.append(prior[:, 1], np.full(num_paces, np.sqrt(2.0) * pace_deviation))
    prior_mean = np.append(prior[:, 0], np.zeros(num_paces))
    coefficients = solve(
        information.sum(axis=0), moments.sum(axis=0), prior_mean, prior_spread, num_features
    )
    level = _level(data, data.features @ coefficients[:num_features])
    coefficients = level * coefficients
    return CostFit(
        coefficients=coefficients,
        level=level,
        pace_deviation=pace_deviation,
        num_independent_blocks=num_independent,
        misfit=_misfit(data, data.features @ coefficients, data.counts * rough.trust),
        prior_mean=prior_mean,
        prior_spread=prior_spread,
        information=information,
        moments=moments,
        recording=data.recording[begins],
    )


def _drift(data: StepData, expected: Floats) -> tuple[float, float]:
    """See `CostFit.pace_deviation` and `CostFit.num_independent_blocks`."""
    measured_s = np.bincount(data.block, data.seconds * data.counts)
    expected_s = np.bincount(data.block, expected * data.counts)
    ratios = np.log(measured_s / expected_s)
    ratios = ratios - ratios.mean()
    num_blocks, squares = len(ratios), float(ratios @ ratios)
    correlation = max(float(ratios[1:] @ ratios[:-1]) / squares, 0.0) if squares else 0.0
    independent = num_blocks * (1.0 - correlation) / (1.0 + correlation)
    independent = max(min(independent, num_blocks / _BLOCKS_APART), 1.0)
    squares *= independent / num_blocks  # as many as are independent
    variance = (_USUAL_FREEDOM * _USUAL_DRIFT**2 + squares) / (_USUAL_FREEDOM + independent - 1.0)
    return max(math.sqrt(variance), _LEAST_DRIFT), independent


def _level(data: StepData, expected_s: Floats) -> float:
    """See `CostFit.level`."""
    counts = np.where(data.recording == 0, data.counts, 0.0)
    return float(counts @ data.seconds) / float(counts @ expected_s)


def _misfit(data: StepData, expected: Floats, trusted: Floats) -> float:
    """See `CostFit.misfit`.

    The mean deviation of each shape, squared, less what the noise of its steps explains. A shape
    weighs as its square is certain. `trusted` counts the steps of a cell, outliers less.
    """
    deviations = data.seconds / expected - 1.0
    deviations = deviations - data.mean_of_run(deviations, trusted)
    freedom = float((data.counts - 1.0).sum())
    noise = float((data.squares / data.seconds**2).sum()) / freedom if freedom else STEP_NOISE**2
    tokens = np.log2(np.maximum(data.features[:, _TOKENS], 1.0)).astype(np.int64)
    shapes = np.column_stack([data.features[:, _SHAPE], data.features[:, _FIRST_DRAFT::2], tokens])
    _, shape = np.unique(shapes, axis=0, return_inverse=True)
    counts = np.bincount(shape, trusted)
    of_noise = noise / counts
    squares = (np.bincount(shape, trusted * deviations) / counts) ** 2
    weights = 1.0 / (of_noise + _USUAL_MISFIT**2) ** 2
    variance = float(weights @ (squares - of_noise)) / float(weights.sum())
    return math.sqrt(max(variance, 0.0))


def _of_run(
    work: Floats, times: Floats, weights: Floats, pace_deviation: float
) -> tuple[Floats, Floats]:
    """The information and the moment of one run, see the module."""
    weighted = work * weights[:, None]
    common, total = weighted.sum(axis=0), float(weights.sum())
    share = pace_deviation**2 / (1.0 + pace_deviation**2 * total)
    information = weighted.T @ work - share * np.outer(common, common)
    moment = weighted.T @ times - share * common * float(weights @ times)
    return information, moment
