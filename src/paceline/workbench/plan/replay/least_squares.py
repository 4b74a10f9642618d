"""Least squares with a prior, for coefficients that are not negative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def solve(
    information: Floats, moment: Floats, mean: Floats, spread: Floats, num_features: int
) -> Floats:
    """The features' coefficients, given what the steps say of all unknowns, and the prior."""
    information = information + np.diag(1.0 / spread**2)
    moment = moment + mean / spread**2
    features, paces = slice(num_features), slice(num_features, None)
    # The paces may be negative: eliminate them.
    between = information[features, paces]
    eliminated = np.linalg.solve(
        information[paces, paces], np.column_stack([between.T, moment[paces]])
    )
    return _non_negative(
        information[features, features] - between @ eliminated[:, :-1],
        moment[features] - between @ eliminated[:, -1],
    )


def _non_negative(gram: Floats, moment: Floats) -> Floats:
    """Minimise x' gram x / 2 - moment' x over x >= 0; `gram` is positive definite.

    Active sets: Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter 23.
    """
    scale = np.sqrt(np.diag(gram))
    gram, moment = gram / np.outer(scale, scale), moment / scale
    size = len(moment)
    solution, is_free = np.zeros(size), np.zeros(size, dtype=bool)
    for _ in range(3 * size):
        gradient = np.where(is_free, -np.inf, moment - gram @ solution)
        steepest = int(gradient.argmax())
        if gradient[steepest] <= 1e-12 * np.abs(moment).max():
            break
        is_free[steepest] = True
        while True:
            wanted = np.zeros(size)
            free = np.flatnonzero(is_free)
            wanted[free] = np.linalg.solve(gram[np.ix_(free, free)], moment[free])
            blocked = is_free & (wanted <= 0.0)
            if not blocked.any():
                solution = wanted
                break
            share = (solution[blocked] / (solution[blocked] - wanted[blocked])).min()
            solution = solution + share * (wanted - solution)
            is_free &= solution > 1e-14
            solution[~is_free] = 0.0
    result: Floats = solution / scale
    return result
