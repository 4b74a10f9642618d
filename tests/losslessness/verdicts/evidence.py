"""E-values of recorded verdicts: how much the record speaks against lossless sampling.

An e-value is a bet against the claim: if the sampler is right, its expectation is at most 1 however
often and whenever one looks, so it reaches 1/alpha with probability at most alpha (Ville). A draft
token with ratio r = target/draft probability is accepted with probability min(1, r). The bets are
likelihood ratios against wrong samplers: thresholds that are a factor too low or too high, and
acceptance shifted on the logit scale. Sampled tokens are tested through their probability integral
transform, which must be uniform: the bets are densities 1 + c * sqrt(2) * cos(pi * k * u).

A mean of e-values is an e-value, which combines alternatives, positions and kinds of token.
References: Shafer and Vovk, Game-Theoretic Foundations (2019); Ramdas et al., Statistical Science
(2023), on e-values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FACTORS = (0.5, 0.8, 0.95, 1 / 0.95, 1 / 0.8, 1 / 0.5)
"""Of the ratio. Fewer bets than these find 5 % a little sooner, and other faults later."""
_LOGIT_SHIFTS = (-1.0, -0.2, 0.2, 1.0)
_CLIP = 1e-5
"""No probability is taken for 0 or 1: vLLM computes ratios in float32."""
_WEIGHTS = (-0.5, -0.15, -0.05, 0.05, 0.15, 0.5)
_FREQUENCIES = (1, 2, 3, 4)


def acceptance_bets(ratios: Floats) -> tuple[Floats, Floats]:
    """Log likelihood ratios if accepted and if rejected, (num_alternatives, num_verdicts) each."""
    claimed = np.clip(ratios, _CLIP, 1 - _CLIP)
    scaled = [np.clip(ratios * factor, _CLIP, 1 - _CLIP) for factor in _FACTORS]
    odds = claimed / (1 - claimed)
    shifted = [np.exp(shift) * odds / (1 + np.exp(shift) * odds) for shift in _LOGIT_SHIFTS]
    others = np.array([*scaled, *shifted])
    return np.log(others / claimed), np.log((1 - others) / (1 - claimed))


def acceptance_log_e(ratios: Floats, accepted: npt.NDArray[np.bool_]) -> float:
    """ln of the e-value of these verdicts; the mean over all alternatives."""
    if_accepted, if_rejected = acceptance_bets(ratios)
    return _log_mean_exp(np.where(accepted, if_accepted, if_rejected).sum(axis=1))


def uniform_log_e(uniforms: Floats) -> float:
    """ln of the e-value against uniformity on [0, 1]; the mean over all alternatives."""
    waves = np.sqrt(2.0) * np.cos(np.pi * np.outer(_FREQUENCIES, uniforms))
    logs = [np.log1p(weight * waves).sum(axis=1) for weight in _WEIGHTS]
    return _log_mean_exp(np.concatenate(logs))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the record of one engine says."""

    log_e: Mapping[str, float]
    """ln of the e-value per part: all acceptance, acceptance per position, kinds of token."""
    num: Mapping[str, int]
    expected: Mapping[str, float]
    """Of accepted drafts, per position."""
    accepted: Mapping[str, int]
    counts: Mapping[str, int]

    @property
    def e_value(self) -> float:
        """Half of the stake on acceptance, half on all other parts; infinite if a token has no
        probability."""
        if self.counts["outside"] or self.counts["other_drafts"]:
            return float("inf")
        others = [value for name, value in self.log_e.items() if name != "acceptance"]
        parts = [self.log_e["acceptance"], _log_mean_exp(np.array(others))]
        return float(np.exp(min(_log_mean_exp(np.array(parts)), 700.0)))


class Verdicts:
    """The records of one engine, added up."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.ratios: list[float] = []
        self.accepted: list[bool] = []
        self.uniforms: dict[str, list[float]] = {}
        self.counts: dict[str, int] = {}
        self.largest_greedy_gap = 0.0
        self.requests: list[dict[str, Any]] = []

    def add(self, record: Mapping[str, Any]) -> None:
        """Add what `recorder.take` returned."""
        for position, ratio, is_accepted in record["verdicts"]:
            self.positions.append(position)
            self.ratios.append(ratio)
            self.accepted.append(is_accepted)
        self.requests += record["requests"]
        for name, values in record["uniforms"].items():
            self.uniforms.setdefault(name, []).extend(values)
        for name, count in record["counts"].items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.largest_greedy_gap = max(self.largest_greedy_gap, record["largest_greedy_gap"])

    def evidence(self) -> Evidence:
        """The e-values of everything added so far."""
        ratios, accepted = np.array(self.ratios), np.array(self.accepted, dtype=bool)
        positions = np.array(self.positions)
        log_e = {"acceptance": acceptance_log_e(ratios, accepted)}
        num, expected, num_accepted = {"acceptance": len(ratios)}, {}, {}
        for position in sorted(set(self.positions)):
            name, here = f"position {position}", positions == position
            log_e[name] = acceptance_log_e(ratios[here], accepted[here])
            num[name] = int(here.sum())
            expected[name] = float(np.minimum(ratios[here], 1.0).sum())
            num_accepted[name] = int(accepted[here].sum())
        for name, values in self.uniforms.items():
            log_e[name] = uniform_log_e(np.array(values))
            num[name] = len(values)
        return Evidence(log_e, num, expected, num_accepted, dict(self.counts))


def _log_mean_exp(logs: Floats) -> float:
    top = float(logs.max())
    return top + float(np.log(np.exp(logs - top).mean()))
