"""From the draft model's confidence to the chance that its token is accepted, by class of request.

    accept = sigmoid(intercept + slope * logit(confidence))

The confidence of a draft token is the largest probability of the distribution that it was drawn
from, which is known before the target has seen it. It separates tokens well for greedy requests and
at temperature 0.8 (AUC 0.80 to 0.92), hardly for prose at temperature 1 (0.58). One map for all
text is off by 0.06 to 0.10, one per class by 0.03 to 0.045; the entropy, the position and the token
before add nothing (docs/experiments/governor.md).

Learned by Newton's steps on the log-likelihood of verdicts, with forgetting. Tokens beyond the
first rejection have no verdict. Tokens that were not verified have none either; as only their
confidence decided that, the map of the others is not biased.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from paceline.runtime.governor.acceptance.per_class import PerClass

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]

# All chosen empirically on recorded drafts.
_FIRST = (1.2, 0.6)
"""Intercept and slope of a class without verdicts."""
_STRENGTH = 4.0
_MEMORY = 600.0
"""Verdicts."""
_STEP_VERDICTS = 16.0
_CURVATURE = 0.02
_LEAST = 1e-5
_MOST_STEP = 0.2
_LEAST_SLOPE = 0.05
"""A surer token is accepted more often. A map that fell would drop all sure tokens, and never get a
verdict on one again."""


def logits_of(probabilities: Floats) -> Floats:
    """log(p / (1 - p)), bounded; NaN counts as 0. The shape stays."""
    bounded = np.fmin(np.fmax(probabilities, _LEAST), 1.0 - _LEAST)
    logits: Floats = np.log(bounded / (1.0 - bounded))
    return logits


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)); the shape stays."""
    values: Floats = 1.0 / (1.0 + np.exp(-logits))
    return values


def _bounded(step: float) -> float:
    return min(max(step, -_MOST_STEP), _MOST_STEP)


class _Map:
    """Weights, and the information about them: a symmetric matrix of two rows."""

    def __init__(self) -> None:
        self.intercept, self.slope = _FIRST
        self._of_intercept, self._of_both, self._of_slope = _STRENGTH, 0.0, _STRENGTH

    def learn(self, logits: Floats, accepted: Floats) -> None:
        """One of Newton's steps."""
        scale = min(1.0, _STEP_VERDICTS / len(logits))
        keep = math.exp(-scale * len(logits) / _MEMORY)
        chances = sigmoid(self.intercept + self.slope * logits)
        weights = scale * (chances * (1.0 - chances) + _CURVATURE)
        weighted = weights * logits
        prior = (1.0 - keep) * _STRENGTH
        self._of_intercept = keep * self._of_intercept + float(weights.sum()) + prior
        self._of_both = keep * self._of_both + float(weighted.sum())
        self._of_slope = keep * self._of_slope + float(weighted @ logits) + prior
        errors = scale * (accepted - chances)
        first, second = float(errors.sum()), float(errors @ logits)
        determinant = self._of_intercept * self._of_slope - self._of_both**2
        intercept_step = (self._of_slope * first - self._of_both * second) / determinant
        slope_step = (self._of_intercept * second - self._of_both * first) / determinant
        slope = self.slope + _bounded(slope_step)
        if slope < _LEAST_SLOPE:  # the best intercept without a change of slope
            slope, intercept_step = _LEAST_SLOPE, first / self._of_intercept
        self.intercept, self.slope = self.intercept + _bounded(intercept_step), slope


class ConfidenceMaps:
    """Learns the map of each class that it meets."""

    def __init__(self) -> None:
        self._maps = PerClass(_Map)

    def coefficients(self, classes: Mapping[str, int]) -> dict[str, tuple[float, float]]:
        """Intercept and slope of each of these classes."""
        maps = {name: self._maps[name] for name in classes}
        return {name: (found.intercept, found.slope) for name, found in maps.items()}

    def learn(self, name: str, logits: Floats, accepted: Floats) -> None:
        """Learn verdicts on tokens of one class: logits of their confidences, and 1 or 0; shape
        (num_tokens,) each."""
        if len(logits):
            self._maps[name].learn(logits, accepted)
