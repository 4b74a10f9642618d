"""Bets against the claim that tokens follow their claimed distributions.

A bet on one token is the likelihood ratio of an alternative to the claim. If the claim holds, its
expectation is 1, so products of bets are test martingales: they ever reach 1/alpha with probability
at most alpha (Ville's inequality). The alternatives are what wrong verification does to the output:
a distribution that is too sharp or too flat, a likeliest token (the one that is usually drafted)
that is accepted too often or too rarely, unlikely tokens that slip through, and sampling parameters
that verification ignores.

Arrays have shape (num_tokens, num_cells); cells are ordered from the likeliest token, padded with
0. Reference: Ramdas et al., Game-Theoretic Statistics and Safe Anytime-Valid Inference (2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POWERS = (0.5, 0.8, 0.93, 1.07, 1.25, 2.0)
ODDS = (0.25, 0.5, 0.8, 0.91, 1.1, 1.25, 2.0, 4.0)
"""Factors on the odds of the likeliest token."""
_UNLIKELY_SHARES = (0.01, 0.05, 0.3)
_IGNORED_SHARES = (0.2, 1.0)
_SMALLEST = 1e-5
"""No probability is taken for less: rounding may let through a token that has none."""

IGNORED = ("temperature", "filters", "penalties", "logit_bias")
"""Parameters that verification may ignore."""
NAMES = (
    *(f"distribution to the power {power:g}" for power in _POWERS),
    *(f"odds of the likeliest token times {factor:g}" for factor in ODDS),
    *(f"{share:.0%} of the tokens drawn evenly" for share in _UNLIKELY_SHARES),
    *(
        f"{name} ignored for {share:.0%} of the tokens"
        for name in IGNORED
        for share in _IGNORED_SHARES
    ),
)
"""Of the alternatives, in the order of `log_bets`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens with the distributions that they should come from."""

    probs: Floats
    index: Ints
    """Cell of each token, (num_tokens,)."""
    num_cells: Ints
    """Cells in use, (num_tokens,); the last one is `REST`."""
    ignoring: Mapping[str, Floats]
    """For each of `IGNORED`: the distributions without that parameter, where it changes them;
    equal to `probs` elsewhere."""


def log_bets(batch: Batch) -> Floats:
    """ln of the bet of every alternative on every token, (len(NAMES), num_tokens)."""
    used = np.arange(batch.probs.shape[1]) < batch.num_cells[:, None]
    claimed = _clipped(batch.probs, used)
    rows = np.arange(len(batch.index))
    taken = claimed[rows, batch.index]

    def bet(others: Floats) -> Floats:
        return np.asarray(np.log(_clipped(others, used)[rows, batch.index] / taken))

    bets = []
    for power in _POWERS:
        raised = np.where(used, claimed**power, 0.0)
        bets.append(bet(raised / raised.sum(axis=1, keepdims=True)))
    top = claimed[:, :1]
    for factor in ODDS:
        shifted = factor * top / (1 - top + factor * top)
        others = claimed * (1 - shifted) / np.maximum(1 - top, 1e-12)
        others[:, :1] = shifted
        bets.append(bet(others))
    evenly = used / batch.num_cells[:, None]
    bets += [bet((1 - share) * claimed + share * evenly) for share in _UNLIKELY_SHARES]
    for name in IGNORED:
        other = batch.ignoring.get(name)
        for share in _IGNORED_SHARES:
            bets.append(
                np.zeros(len(rows))
                if other is None
                else bet((1 - share) * claimed + share * _clipped(other, used))
            )
    return np.array(bets)


def _clipped(probs: Floats, used: npt.NDArray[np.bool_]) -> Floats:
    raised = np.where(used, np.maximum(probs, _SMALLEST), 0.0)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def uniforms(batch: Batch, draws: Floats) -> Floats:
    """The randomised probability integral transform of each token, (num_tokens,).

    Uniform on [0, 1] and independent if the claim holds; `draws` are uniform numbers.
    """
    used = np.arange(batch.probs.shape[1]) < batch.num_cells[:, None]
    claimed = _clipped(batch.probs, used)
    rows = np.arange(len(batch.index))
    taken = claimed[rows, batch.index]
    above = np.cumsum(claimed, axis=1)[rows, batch.index] - taken
    return np.asarray(np.clip(above + draws * taken, 0.0, 1.0))


_FREQUENCIES = ((1, 1), (2, 2), (1, 2), (2, 1))
_STAKES = (-0.45, -0.15, 0.15, 0.45)
DEPENDENCE_NAMES = tuple(
    f"cos({k} pi u) cos({m} pi v), stake {stake:+g}" for k, m in _FREQUENCIES for stake in _STAKES
)


def dependence_bets(left: Floats, right: Floats) -> Floats:
    """ln of bets that two uniform numbers depend on each other, (num_alternatives, num_pairs).

    The alternatives have the densities 1 + 2 stake cos(k pi u) cos(m pi v), which are positive.
    """
    waves = [2 * np.cos(np.pi * k * left) * np.cos(np.pi * m * right) for k, m in _FREQUENCIES]
    return np.array([np.log1p(stake * wave) for wave in waves for stake in _STAKES])
