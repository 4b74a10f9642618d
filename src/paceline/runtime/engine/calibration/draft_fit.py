"""What drafting adds to a step, smoothed over all measured sizes and lengths.

    seconds(n, k) = first + further * (k - 1) + request * n * k        (k > 0; none is negative)

A measured value is the difference of two steps. With many requests these take many times as long as
the drafts between them, so their noise can exceed the difference. Hence the fit, by least squares,
in which a difference weighs by the inverse of the duration of its step. The passes of a draft model
are alike, and each is linear in the requests within the noise of a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_NUM_COEFFICIENTS = 3


def fit_drafts(
    sizes: Sequence[int], lengths: Sequence[int], steps_s: Sequence[Sequence[float]]
) -> tuple[tuple[float, ...], ...]:
    """Seconds that drafts add, shape (num_sizes, num_lengths).

    `steps_s` has the durations of steps that verify nothing and draft each of `lengths` tokens,
    the first of which is 0; same shape.
    """
    kinds = [(n, k) for n in sizes for k in lengths[1:]]
    if not kinds:
        return tuple((0.0,) for _ in sizes)
    steps = np.array(steps_s)
    added = (steps[:, 1:] - steps[:, :1]).ravel()
    weights = 1.0 / np.maximum(steps[:, 1:].ravel(), 1e-9)
    features = np.array([(1.0, k - 1.0, float(n * k)) for n, k in kinds])
    coefficients = _non_negative(features * weights[:, None], added * weights)
    fitted = (features @ coefficients).reshape(len(sizes), -1)
    return tuple((0.0, *row) for row in fitted.tolist())


def _non_negative(
    features: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Least squares; a coefficient that would be negative is 0, the least one first."""
    used = list(range(_NUM_COEFFICIENTS))
    found = np.zeros(_NUM_COEFFICIENTS)
    while used:
        solved, *_ = np.linalg.lstsq(features[:, used], values, rcond=None)
        if solved.min() >= 0.0:
            found[used] = solved
            return found
        del used[int(solved.argmin())]
    return found
