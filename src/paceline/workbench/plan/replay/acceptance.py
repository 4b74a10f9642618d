"""The acceptance of a drafter on each category of requests, from the verdicts of a recording.

A request has one quality z, standard normal, for its life. Position j of a draft is accepted, given
that all before it were, with the chance

    hazard_j(z) = sigmoid(logit_j + spread * z)

This is the truth of the policy simulator. `logit_j` and `spread` are fitted by expectation and
maximisation, where z is integrated by Gauss-Hermite quadrature. So requests that stay long because
their drafts are bad do not weigh more than others, and deep positions, which only easy requests
reach, are not taken for the hazard of all.

Prior: the logits are a random walk over the positions. A category begins near all categories
together and takes nearly the same steps. So a position that was never tried continues the curve.

A draw fits another sample of the requests, with the prior's means drawn from the prior. Where there
are many verdicts it varies as the sample does, where there are none as the prior does, and between
the two by both (Osband et al., "Randomized Prior Functions", NeurIPS 2018, section 3). References:
hazards of censored data, Kaplan and Meier 1958; EM with quadrature, Bock and Aitkin 1981.

Assumes that a request's quality does not change, and that the drafter offers all that is asked,
except the n-gram drafters, which have a match for a share of their requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.foundation.recording.records import RequestRecord
from paceline.testing.policy_simulator.traffic.phases import DraftTruth

Floats = npt.NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(25)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
_MAX_ROUNDS = 200
_TOLERANCE = 1e-3
"""Change of a logit in a round below which the fit has converged."""
_FIRST_LOGIT, _FIRST_DEVIATION = 0.4, 1.5
"""The first position of all categories together: a hazard of 0.6, and 0.25 to 0.87 within one
standard deviation. Chosen empirically."""
_STEP_MEAN, _STEP_DEVIATION = -0.1, 0.25
"""Of a step of the walk from one position to the next. Published acceptance by position has steps
of -0.02 in the mean and 0.17 in the root of the mean square (13 steps: EAGLE on MT-bench, arXiv
2401.15077, 0-alpha to 4-alpha, and EAGLE-3 in github.com/vllm-project/vllm/pull/24243). They are
those of all requests together. Easy requests reach a position more often, which raises its logit by
about spread² * (1 - hazard) against the position before: 0.1 at a spread of 0.5."""
_CATEGORY_DEVIATION = 0.5
"""Of a category's first position from that of all together. Chosen empirically."""
_CATEGORY_STEP_DEVIATION = 0.15
"""Of a category's step from that of all together. Chosen empirically."""
_SPREAD_DEVIATION = 1.0
"""Standard deviation of the prior of `spread`, centred on 0."""
_MOST_LOGIT = 8.0


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of requests, one row each, (num_requests, depth)."""

    tried: Floats
    accepted: Floats
    asked: Floats
    """Drafts asked for, (num_requests,)."""

    @property
    def num_requests(self) -> int:
        return len(self.asked)

    def rows(self, chosen: npt.NDArray[np.int64]) -> Verdicts:
        """The verdicts of these requests, in this order; a request may occur more than once."""
        return Verdicts(self.tried[chosen], self.accepted[chosen], self.asked[chosen])


@dataclass(frozen=True, slots=True)
class AcceptanceFit:
    """The estimate for one category."""

    logits: Floats
    """(depth,)"""
    spread: float
    match_fraction: float
    """Share of the drafts asked for that have a token."""

    @property
    def hazards(self) -> tuple[float, ...]:
        """Of a request of quality 0, by position."""
        return tuple((1.0 / (1.0 + np.exp(-self.logits))).tolist())

    def truth(self, *, looks_ngrams_up: bool) -> DraftTruth:
        """The same as the policy simulator takes it."""
        match = min(max(self.match_fraction, 1e-3), 1.0) if looks_ngrams_up else 1.0
        return DraftTruth(self.hazards, self.spread, match_start=match, match_stay=match)


def verdicts_by_category(requests: Sequence[RequestRecord], depth: int) -> Mapping[str, Verdicts]:
    """The verdicts of the requests that have any, by category, to `depth` positions."""
    chosen: dict[str, list[RequestRecord]] = {}
    for request in requests:
        if request.asked:
            chosen.setdefault(request.category, []).append(request)
    return {
        category: Verdicts(
            np.array([_padded(r.tried, depth) for r in records], dtype=float),
            np.array([_padded(r.accepted, depth) for r in records], dtype=float),
            np.array([r.asked for r in records], dtype=float),
        )
        for category, records in chosen.items()
    }


def fit_categories(verdicts: Mapping[str, Verdicts], depth: int) -> dict[str, AcceptanceFit]:
    """Fit every category; the key "" has all together, for categories without verdicts."""
    return _fit_all(verdicts, depth, {}, lambda prior: prior)


def draw_categories(
    verdicts: Mapping[str, Verdicts],
    depth: int,
    estimate: Mapping[str, AcceptanceFit],
    random: np.random.Generator,
) -> dict[str, AcceptanceFit]:
    """Draw what the categories may be: `fit_categories` of another sample and another prior.

    `estimate` is the fit of the verdicts, from which this one begins.
    """
    return _fit_all(
        resample(verdicts, random), depth, estimate, lambda prior: prior.redrawn(random)
    )


def resample(verdicts: Mapping[str, Verdicts], random: np.random.Generator) -> dict[str, Verdicts]:
    """Draw as many requests of every category with replacement."""
    return {
        category: part.rows(random.integers(0, part.num_requests, part.num_requests))
        for category, part in verdicts.items()
    }


@dataclass(frozen=True, slots=True)
class _Prior:
    """Independent normals: of the first logit, of each step from a position to the next, and of
    the spread."""

    means: Floats
    """(depth + 1,), the spread last."""
    deviations: Floats

    def redrawn(self, random: np.random.Generator) -> _Prior:
        """The same with means drawn from it."""
        means = self.means + self.deviations * random.standard_normal(len(self.means))
        return _Prior(means, self.deviations)

    @property
    def begin(self) -> tuple[Floats, float]:
        """Logits and spread at its mean."""
        return np.cumsum(self.means[:-1]), 0.5

    def slopes(self, logits: Floats, spread: float) -> tuple[Floats, Floats]:
        """Gradient and negative Hessian of its logarithm, by the logits and the spread."""
        to_steps = np.eye(len(self.means)) - np.eye(len(self.means), k=-1)
        to_steps[-1, -2:-1] = 0.0
        weighted = to_steps.T / self.deviations**2
        return weighted @ (self.means - to_steps @ np.append(logits, spread)), weighted @ to_steps


def _prior(first: float, steps: Floats, first_deviation: float, step_deviation: float) -> _Prior:
    num_steps = len(steps)
    return _Prior(
        np.array([first, *steps, 0.0]),
        np.array([first_deviation, *[step_deviation] * num_steps, _SPREAD_DEVIATION]),
    )


def _fit_all(
    verdicts: Mapping[str, Verdicts],
    depth: int,
    begin: Mapping[str, AcceptanceFit],
    redraw: Callable[[_Prior], _Prior],
) -> dict[str, AcceptanceFit]:
    parts = list(verdicts.values())
    if parts:
        pooled = Verdicts(
            np.concatenate([part.tried for part in parts]),
            np.concatenate([part.accepted for part in parts]),
            np.concatenate([part.asked for part in parts]),
        )
    else:
        pooled = Verdicts(np.zeros((0, depth)), np.zeros((0, depth)), np.zeros(0))
    steps = np.full(depth - 1, _STEP_MEAN)
    prior = redraw(_prior(_FIRST_LOGIT, steps, _FIRST_DEVIATION, _STEP_DEVIATION))
    fits = {"": _fit(pooled, prior, begin.get(""))}
    together = fits[""].logits
    for category, part in verdicts.items():
        prior = redraw(
            _prior(
                float(together[0]), np.diff(together), _CATEGORY_DEVIATION, _CATEGORY_STEP_DEVIATION
            )
        )
        fits[category] = _fit(part, prior, begin.get(category))
    return fits


def _fit(verdicts: Verdicts, prior: _Prior, begin: AcceptanceFit | None) -> AcceptanceFit:
    tried, accepted = verdicts.tried, verdicts.accepted
    offered = tried[:, 0].sum()
    match_fraction = float(offered / verdicts.asked.sum()) if verdicts.asked.sum() else 1.0
    logits, spread = prior.begin if begin is None else (begin.logits, max(begin.spread, 0.1))
    for _ in range(_MAX_ROUNDS):
        shares = _node_shares(tried, accepted, logits, spread)
        before = np.append(logits, spread)
        logits, spread = _maximise(tried.T @ shares, accepted.T @ shares, logits, spread, prior)
        if np.abs(np.append(logits, spread) - before).max() < _TOLERANCE:
            break
    return AcceptanceFit(logits, spread, match_fraction)


def _node_shares(tried: Floats, accepted: Floats, logits: Floats, spread: float) -> Floats:
    """The posterior of each request's quality over the nodes, (num_requests, num_nodes)."""
    at = logits[:, None] + spread * _NODES[None, :]
    log_likelihood = accepted @ _log_sigmoid(at) + (tried - accepted) @ _log_sigmoid(-at)
    log_likelihood = log_likelihood + np.log(_NODE_WEIGHTS)
    log_likelihood = log_likelihood - log_likelihood.max(axis=1, keepdims=True)
    shares = np.exp(log_likelihood)
    normalised: Floats = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def _maximise(
    tried: Floats, accepted: Floats, logits: Floats, spread: float, prior: _Prior
) -> tuple[Floats, float]:
    """One Newton step for the logits and the spread; counts are (depth, num_nodes)."""
    depth = len(logits)
    at = logits[:, None] + spread * _NODES[None, :]
    chance = 1.0 / (1.0 + np.exp(-at))
    residual = accepted - tried * chance
    curvature = tried * chance * (1.0 - chance)
    gradient, hessian = prior.slopes(logits, spread)
    gradient += np.append(residual.sum(axis=1), (residual * _NODES).sum())
    hessian[range(depth), range(depth)] += curvature.sum(axis=1)
    between = (curvature * _NODES).sum(axis=1)
    hessian[:depth, depth] += between
    hessian[depth, :depth] += between
    hessian[depth, depth] += (curvature * _NODES**2).sum()
    step = np.clip(np.linalg.solve(hessian, gradient), -1.0, 1.0)
    moved = np.clip(logits + step[:depth], -_MOST_LOGIT, _MOST_LOGIT)
    return moved, max(spread + float(step[depth]), 0.0)


def _padded(counts: Sequence[int], depth: int) -> list[int]:
    return [*counts[:depth], *([0] * (depth - len(counts)))]


def _log_sigmoid(values: Floats) -> Floats:
    result: Floats = -np.logaddexp(0.0, -values)
    return result
