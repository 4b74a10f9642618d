"""Follow the drafts of one step, end them, and choose what is verified.

With s(i, j) the chance that token j of request i is reached and accepted, the product of the mapped
confidences of its tokens 1 to j:

    verified are    tokens 1 to w(i) of request i, the first ones with s(i, j) >= least survival
    pass j+1 runs   if the sum over i of max(s(i, j+1) - least survival, 0) exceeds its price,
                    or that of passes j+1 and j+2 together theirs

where s(i, j+1) is not known yet. Its last factor is forecast from the token before:
logit(next) = 0.3 + 0.8 * logit(last).

Lossless: whether token j is kept depends on the draft tokens before it and on the distribution that
token j was drawn from, and on the rule, which was fixed before. It never depends on token j itself,
nor on what is drawn after it. A kept token is verified as in any other step; the first token that
is dropped is drawn from the target's distribution. (A rule that drops a token for its own
probability is biased, and so is a price computed from this step's own drafts; both are enumerated
in tests/unit/governor/drafting/test_lossless.py.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.runtime.governor.acceptance.confidence_map import Floats, Ints, logits_of, sigmoid
from paceline.runtime.governor.acceptance.per_class import ClassRows
from paceline.runtime.governor.values import DraftRule

_NEXT_INTERCEPT, _NEXT_SLOPE = 0.3, 0.8
"""Fitted on recorded drafts; learning them online gained nothing."""
_PASSES_AHEAD = 2
_UNMAPPED = (0.0, 1.0)


def survival_of(rule: DraftRule, classes: ClassRows, confidences: Floats) -> Floats:
    """s(i, j), of the shape of `confidences`, (num_requests, num_passes)."""
    intercepts, slopes = _maps_of(rule, classes)
    logits = intercepts[:, None] + slopes[:, None] * logits_of(confidences)
    survival: Floats = np.cumprod(sigmoid(logits), axis=1)
    return survival


def widths_of(rule: DraftRule, survival: Floats) -> Ints:
    """w(i), shape (num_requests,)."""
    widths: Ints = (survival >= rule.least_survival).sum(axis=1)
    return widths


class DraftingRound:
    """Ends the passes of one step. Not reusable.

    >>> rule = DraftRule({"greedy": (0.0, 1.0)}, 0.2, (0.5, 0.5, 0.5))
    >>> drafting = DraftingRound(rule, ["greedy", "greedy"])
    >>> drafting.add_pass(np.array([0.9, 0.1]))  # the first is sure, which is worth another pass
    >>> drafting.wants_more()
    True
    >>> drafting.add_pass(np.array([0.3, 0.9]))
    >>> drafting.wants_more()
    False
    """

    def __init__(self, rule: DraftRule, classes: Sequence[str], limits: Ints | None = None) -> None:
        """`classes` has the class of each request, in the order of all arrays. `limits` has the
        most tokens of each request that can be verified, 0 for one that takes no drafts; None sets
        no limits."""
        self._rule = rule
        self._limits = limits
        self._intercepts, self._slopes = _maps_of(rule, ClassRows(classes))
        self._logits = np.zeros(len(classes))
        self._survival = np.ones(len(classes))
        self._num_passes = 0

    def add_pass(self, confidences: Floats) -> None:
        """Note the confidences of the tokens of one pass, shape (num_requests,)."""
        self._logits = self._intercepts + self._slopes * logits_of(confidences)
        self._survival = self._survival * sigmoid(self._logits)
        self._num_passes += 1

    def wants_more(self) -> bool:
        """Whether another pass is worth its time; always True before the first."""
        rule, num_passes = self._rule, self._num_passes
        if not num_passes:
            return True
        survival, logits = self._survival, self._logits
        gain = price = 0.0
        prices = rule.pass_tokens[num_passes - 1 : num_passes - 1 + _PASSES_AHEAD]
        for position, pass_tokens in enumerate(prices, start=num_passes):
            logits = _NEXT_INTERCEPT + _NEXT_SLOPE * logits
            survival = survival * sigmoid(logits)
            gains = np.maximum(survival - rule.least_survival, 0.0)
            gain += float(
                gains.sum(where=True if self._limits is None else self._limits > position)
            )
            price += pass_tokens
            if gain > price:
                return True
        return False


def _maps_of(rule: DraftRule, classes: ClassRows) -> tuple[Floats, Floats]:
    """Intercept and slope of each request's map, (num_requests,) each."""
    maps = np.array([rule.maps.get(name, _UNMAPPED) for name in classes.names]).reshape(-1, 2)
    intercepts, slopes = maps[classes.of_request].T
    return intercepts, slopes
