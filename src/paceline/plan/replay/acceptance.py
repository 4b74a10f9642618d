"""The acceptance of a drafter on each category of requests, from the verdicts of a recording.

A request has one quality z, standard normal, for its life. Position j of a draft is accepted, given
that all before it were, with the chance

    hazard_j(z) = sigmoid(logit_j + spread * z)

This is the truth of the policy simulator. `logit_j` and `spread` are fitted by expectation and
maximisation, where z is integrated by Gauss-Hermite quadrature. So requests that stay long because
their drafts are bad do not weigh more than others, and deep positions, which only easy requests
reach, are not taken for the hazard of all.

Prior: hazard_1 lies near that of all categories together, and each further one near the one before
it, by a few verdicts' weight. So a position that was never tried continues the curve. References:
hazards of censored data, Kaplan and Meier 1958; EM with quadrature, Bock and Aitkin 1981.

Assumes that a request's quality does not change, and that the drafter offers all that is asked,
except the n-gram drafters, which have a match for a share of their requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.policy_simulator.traffic.phases import DraftTruth
from paceline.recording.records import RequestRecord

Floats = npt.NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(25)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
_ROUNDS = 60
_ROUNDS_AGAIN = 12
"""Of a fit that begins at the estimate of all requests."""
_FIRST_HAZARD, _FIRST_STRENGTH = 0.6, 2.0
"""Prior of the first position of all categories together, in verdicts."""
_NEXT_STRENGTH = 4.0
"""Weight of the position before, in verdicts. Chosen empirically."""
_POOL_STRENGTH = 20.0
"""Weight of all categories together on the first position of one. Chosen empirically."""
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


def fit_categories(
    verdicts: Mapping[str, Verdicts], depth: int, begin: Mapping[str, AcceptanceFit] | None = None
) -> dict[str, AcceptanceFit]:
    """Fit every category; the key "" has all together, for categories without verdicts.

    `begin`: an earlier fit of the same categories, from which this one continues.
    """
    parts = list(verdicts.values())
    if parts:
        pooled = Verdicts(
            np.concatenate([part.tried for part in parts]),
            np.concatenate([part.accepted for part in parts]),
            np.concatenate([part.asked for part in parts]),
        )
    else:
        pooled = Verdicts(np.zeros((0, depth)), np.zeros((0, depth)), np.zeros(0))
    begin = begin or {}
    fits = {"": _fit(pooled, _FIRST_HAZARD, _FIRST_STRENGTH, begin.get(""))}
    first = fits[""].hazards[0] if depth else _FIRST_HAZARD
    for category, part in verdicts.items():
        fits[category] = _fit(part, first, _POOL_STRENGTH, begin.get(category))
    return fits


def resample(verdicts: Mapping[str, Verdicts], random: np.random.Generator) -> dict[str, Verdicts]:
    """Draw as many requests of every category with replacement."""
    return {
        category: part.rows(random.integers(0, part.num_requests, part.num_requests))
        for category, part in verdicts.items()
    }


def _fit(
    verdicts: Verdicts, first: float, strength: float, begin: AcceptanceFit | None
) -> AcceptanceFit:
    tried, accepted = verdicts.tried, verdicts.accepted
    depth = tried.shape[1]
    offered = tried[:, 0].sum() if depth else 0.0
    match_fraction = float(offered / verdicts.asked.sum()) if verdicts.asked.sum() else 1.0
    if begin is None:
        logits, spread = np.full(depth, _logit(first)), 0.5
    else:
        logits, spread = begin.logits.copy(), begin.spread
    for _ in range(_ROUNDS if begin is None else _ROUNDS_AGAIN):
        shares = _node_shares(tried, accepted, logits, spread)
        logits, spread = _maximise(
            tried.T @ shares, accepted.T @ shares, logits, spread, first, strength
        )
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
    tried: Floats, accepted: Floats, logits: Floats, spread: float, first: float, strength: float
) -> tuple[Floats, float]:
    """One Newton step for the logits and the spread; counts are (depth, num_nodes)."""
    depth = len(logits)
    at = logits[:, None] + spread * _NODES[None, :]
    chance = 1.0 / (1.0 + np.exp(-at))
    residual = accepted - tried * chance
    curvature = tried * chance * (1.0 - chance)
    gradient = np.zeros(depth + 1)
    hessian = np.zeros((depth + 1, depth + 1))
    gradient[:depth] = residual.sum(axis=1)
    gradient[depth] = (residual * _NODES).sum() - spread / _SPREAD_DEVIATION**2
    hessian[range(depth), range(depth)] = curvature.sum(axis=1)
    hessian[:depth, depth] = hessian[depth, :depth] = (curvature * _NODES).sum(axis=1)
    hessian[depth, depth] = (curvature * _NODES**2).sum() + 1.0 / _SPREAD_DEVIATION**2
    before = first
    for position in range(depth):  # the prior, as verdicts at quality 0
        weight = strength if position == 0 else _NEXT_STRENGTH
        here = float(_sigmoid(logits[position]))
        gradient[position] += weight * (before - here)
        hessian[position, position] += max(weight * here * (1.0 - here), 1e-6)
        before = here
    step = np.linalg.solve(hessian, gradient)
    step = np.clip(step, -1.0, 1.0)
    moved = np.clip(logits + step[:depth], -_MOST_LOGIT, _MOST_LOGIT)
    return moved, max(spread + float(step[depth]), 0.0)


def _padded(counts: Sequence[int], depth: int) -> list[int]:
    return [*counts[:depth], *([0] * (depth - len(counts)))]


def _sigmoid(value: float) -> float:
    return float(1.0 / (1.0 + np.exp(-value)))


def _logit(chance: float) -> float:
    return float(np.log(chance / (1.0 - chance)))


def _log_sigmoid(values: Floats) -> Floats:
    result: Floats = -np.logaddexp(0.0, -values)
    return result
