"""A first fit that a minority of disturbed cells does not lead astray.

Other work on a machine makes single steps up to several times as long, and the first step of a size
creates its kernels. With normal noise such cells weigh as much as the others, and a linear model
bends to them: on a recording of two shared cores, steps without drafts came out 60 % too long.

Here the deviations have Student's t distribution. Its scale is estimated, since the noise of the
steps' own times, known from simulated machines, is the least that a real one has. Iteratively
reweighted least squares: a cell whose deviation is z scales counts as (nu + 1) / (nu + z²) of one
(Lange, Little and Taylor, "Robust Statistical Modeling Using the t Distribution", 1989). Deviations
count from the mean of their run, whose speed is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.workbench.plan.replay.least_squares import solve
from paceline.workbench.plan.replay.step_data import StepData

Floats = npt.NDArray[np.float64]

STEP_NOISE = 0.05
"""Relative standard deviation of one step's time, at least. Chosen empirically, as in the
governor."""
_CELL_NOISE = 0.005
"""The same of a cell of many steps, whose shapes differ within the cell. Chosen empirically."""
_FREEDOM = 3.0
"""Degrees of freedom of the t distribution. Chosen empirically."""
_MEDIAN_SQUARE = 0.455
"""Of a standard normal variable."""
_NUM_ITERATIONS = 12
"""The last ones change the coefficients by less than a percent."""


@dataclass(frozen=True, slots=True)
class RobustFit:
    """What the cells are expected to take, and how much each says."""

    expected_s: Floats
    """(num_cells,)"""
    trust: Floats
    """Share of a cell that counts, from 0 for outliers to (nu + 1) / nu, (num_cells,)"""
    weights: Floats
    """1 / the variance of a cell's relative deviation, by its trust, (num_cells,)"""


def fit_robustly(data: StepData, prior_mean: Floats, prior_spread: Floats) -> RobustFit:
    """Fit the coefficients, given their prior, (num_features,) each."""
    num_features = data.features.shape[1]
    noise = STEP_NOISE**2 / data.counts + _CELL_NOISE**2
    expected_s, variance, trust = data.seconds, noise, np.ones(len(noise))
    for _ in range(_NUM_ITERATIONS):
        weighted = data.features * (trust / (variance * expected_s**2))[:, None]
        coefficients = solve(
            weighted.T @ data.features,
            weighted.T @ data.seconds,
            prior_mean,
            prior_spread,
            num_features,
        )
        expected_s = data.features @ coefficients
        deviations = data.seconds / expected_s - 1.0
        deviations = deviations - data.mean_of_run(deviations, trust / variance)
        squares = _median(deviations**2, data.counts) / _MEDIAN_SQUARE
        variance = noise + max(squares - _median(noise, data.counts), 0.0)
        trust = (_FREEDOM + 1.0) / (_FREEDOM + deviations**2 / variance)
    return RobustFit(expected_s, trust, trust / variance)


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, passed[-1] / 2.0)])
