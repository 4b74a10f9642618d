"""Estimate the value of every cell from the blocks measured so far.

The log of the value is a Gaussian process over the cells. Cells that share values of their knobs
are correlated: half of the variance belongs to effects of single knobs, which add up, and half to
combinations. Values of a numeric knob are correlated by exp(-distance / 2), with the distance in
steps of the grid, and other values by `_OTHER_VALUE`. So a block teaches about similar settings of
the same server and about the same setting on other servers. Where the planner predicts, its
prediction is the prior mean, up to an unknown factor.

A block differs from its cell by noise, and by an effect of its request sequence, which all blocks
of this sequence share. The scale of the surface has a conjugate prior and follows from the blocks;
the noise relative to it is the one of a small grid that makes the blocks most likely.

Reference: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]

_STEPS = 2.0
"""Distance on a numeric knob over which the correlation falls to 1/e; chosen empirically."""
_OTHER_VALUE = math.exp(-1.0)
"""Correlation between values of a knob that have no order."""
_LEVEL_SD = 2.0
"""Of the unknown level of all cells, relative to the scale of the surface."""
_PRIOR_SCALE, _PRIOR_WEIGHT = 0.3, 4.0
"""Standard deviation of the surface in logs before any block, and how many blocks that is worth.
Chosen empirically: settings of one server usually differ by a factor of 1.3 or so."""
_NOISE_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Of the noise to the scale of the surface."""
_PRIOR_NOISE_SD = 0.05
"""Before cells are repeated the blocks say little about the noise; chosen empirically, with a
standard deviation of a factor of 2."""
_SEQUENCE_SHARE = 0.5
"""Standard deviation of the effect of a sequence, relative to that of the noise."""


@dataclass(frozen=True, slots=True)
class Block:
    """One measured block."""

    cell: int
    """Index of its cell."""
    sequence: int
    log_value: float


@dataclass(frozen=True, slots=True)
class Fit:
    """What the blocks say about the cells, in logs."""

    mean: Array
    """(num_cells,)"""
    covariance: Array
    """(num_cells, num_cells)"""
    noise_sd: float
    """Of a block around its cell."""

    @property
    def sd(self) -> Array:
        """(num_cells,)"""
        variance: Array = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return variance


class Surface:
    """The prior over the cells of one grid."""

    def __init__(self, knobs: Sequence[Sequence[Any]], prior_mean: Sequence[float]) -> None:
        """`knobs` holds the values of each cell, (num_cells, num_knobs)."""
        self._prior_mean = np.asarray(prior_mean, dtype=np.float64)
        correlations = [_correlations(column) for column in zip(*knobs, strict=True)]
        self._shape: Array = (np.mean(correlations, axis=0) + np.prod(correlations, axis=0)) / 2.0

    def fit(self, blocks: Sequence[Block]) -> Fit:
        """Condition on the blocks; without any, the prior."""
        if not blocks:
            prior = _PRIOR_SCALE**2 * (self._shape + _LEVEL_SD**2)
            return Fit(self._prior_mean, prior, _PRIOR_NOISE_SD)
        cells = [block.cell for block in blocks]
        residuals = np.array([block.log_value for block in blocks]) - self._prior_mean[cells]
        level = float(residuals.mean())
        best = max(
            (self._system(blocks, residuals - level, ratio) for ratio in _NOISE_RATIOS),
            key=lambda system: system.log_likelihood,
        )
        shape = self._shape + _LEVEL_SD**2
        reduction = np.linalg.solve(best.factor, shape[cells, :])
        return Fit(
            mean=self._prior_mean + level + reduction.T @ best.whitened,
            covariance=best.scale**2 * (shape - reduction.T @ reduction),
            noise_sd=best.noise_ratio * best.scale,
        )

    def _system(self, blocks: Sequence[Block], residuals: Array, noise_ratio: float) -> _System:
        """The equations of the blocks for one noise, in units of the scale of the surface."""
        cells = [block.cell for block in blocks]
        sequences = np.array([block.sequence for block in blocks])
        covariance: Array = self._shape[np.ix_(cells, cells)] + _LEVEL_SD**2
        same_sequence = sequences[:, None] == sequences[None, :]
        covariance += (_SEQUENCE_SHARE * noise_ratio) ** 2 * same_sequence
        covariance += noise_ratio**2 * np.eye(len(blocks))
        factor: Array = np.linalg.cholesky(covariance)
        whitened: Array = np.linalg.solve(factor, residuals)
        weight = _PRIOR_WEIGHT + len(blocks)
        squares = _PRIOR_WEIGHT * _PRIOR_SCALE**2 + float(whitened @ whitened)
        scale = math.sqrt(squares / weight)
        surprise = math.log(noise_ratio * scale / _PRIOR_NOISE_SD) / math.log(2.0)
        log_likelihood = (
            -float(np.log(np.diag(factor)).sum())
            - 0.5 * weight * math.log(squares)
            - 0.5 * surprise**2
        )
        return _System(factor, whitened, noise_ratio, scale, log_likelihood)


@dataclass(frozen=True, slots=True)
class _System:
    """The blocks under one noise. The scale is integrated out of the likelihood."""

    factor: Array
    """Cholesky factor of the covariance over the squared scale, (num_blocks, num_blocks)."""
    whitened: Array
    """(num_blocks,)"""
    noise_ratio: float
    scale: float
    log_likelihood: float
    """Up to a constant, with the prior on the noise."""


def promising(
    fit: Fit,
    among: Sequence[int],
    count: int,
    caution: float,
    to_cover: Sequence[frozenset[Any]] | None = None,
) -> list[int]:
    """Up to `count` cells of `among` to measure together, the most promising first.

    One after another, the cell with the highest mean + `caution` standard deviations, given that
    those before it are measured. So the cells spread instead of crowding around one maximum.
    `to_cover` names the values that each cell of `among` has, (len(among),): cells with the most
    values that no chosen cell has come first, until every value is covered.
    """
    covariance = fit.covariance[np.ix_(among, among)].copy()
    mean = fit.mean[list(among)]
    chosen: list[int] = []
    covered: frozenset[Any] = frozenset()
    for _ in range(min(count, len(among))):
        upper = mean + caution * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        upper[chosen] = -np.inf
        if to_cover is not None:
            num_new = np.array([len(values - covered) for values in to_cover])
            upper[num_new < num_new.max()] = -np.inf
        best = int(np.argmax(upper))
        chosen.append(best)
        covered |= frozenset() if to_cover is None else to_cover[best]
        column = covariance[:, best].copy()
        covariance -= np.outer(column, column) / (column[best] + fit.noise_sd**2)
    return [among[index] for index in chosen]


def _correlations(values: Sequence[Any]) -> Array:
    """Between the cells, by one knob alone, (num_cells, num_cells)."""
    numbers = sorted({value for value in values if _is_number(value)})
    place = {value: index for index, value in enumerate(numbers)}

    def correlation(a: Any, b: Any) -> float:
        if _is_number(a) and _is_number(b):
            return math.exp(-abs(place[a] - place[b]) / _STEPS)
        return 1.0 if a == b else _OTHER_VALUE

    return np.array([[correlation(a, b) for b in values] for a in values])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
