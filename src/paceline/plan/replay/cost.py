"""The time of an engine step as a function of its work, fitted to the cells of a recording.

    seconds = base + request * n + judge * [v > 0] + verify * v + context * c + mixed * [p > 0]
            + token * t + bend_1 * max(t - 96, 0) + bend_2 * max(t - 256, 0)
            + pass * k + draft * n * k

with n requests, v draft tokens verified, p prompt tokens, c thousand tokens of context, k passes of
the draft model, and t the tokens of the target's pass, n + v + p, padded to a captured graph. A
token to verify also needs its logits and the rejection sampler, unlike one of a prompt. The bends
are where a pass ceases to be bound by reading the weights. No coefficient is negative.

Least squares with a prior. What a recording leaves undetermined (only one draft length was run, or
only one number of requests), the prior decides, and its spread shows in the interval: every
replicate is fitted to another draw of the recording's blocks, with the prior's mean itself drawn
from the prior. For a linear model with normal noise the replicates are draws from the posterior
(Osband et al., "Randomized Prior Functions", NeurIPS 2018, section 3).

A second recording, of another drafter on the same machine, shares everything but the two
coefficients of the draft model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.policy_simulator.machines.cost import StepShape
from paceline.policy_simulator.machines.graphs import GraphSizes
from paceline.recording.records import StepBlock

Floats = npt.NDArray[np.float64]

_KNOTS = (96.0, 256.0)
"""Tokens, as in the governor's cost model: arithmetic over bandwidth of data-centre GPUs."""

# Of the shortest cell's time: (mean, spread). Chosen empirically: wider than the prior of the
# governor's cost model, which must decide after a few steps.
_SHARED_PRIOR = (
    ("base", 0.9, 1.0),
    ("request", 0.01, 0.05),
    ("judge", 0.02, 0.1),
    ("verify", 0.0, 0.05),
    ("context", 0.005, 0.05),
    ("mixed", 0.0, 0.3),
    ("token", 0.02, 0.1),
    ("bend 1", 0.0, 0.01),
    ("bend 2", 0.0, 0.01),
)
_DRAFT_PRIOR = (("pass", 0.1, 0.3), ("draft", 0.005, 0.03))
_NUM_SHARED = len(_SHARED_PRIOR)
_STEP_NOISE = 0.05
"""Relative standard deviation of one step's time. Chosen empirically, as in the governor."""
_CELL_NOISE = 0.005
"""The same of a cell of many steps, whose shapes differ within the cell. Chosen empirically."""
_LEAST_DRIFT = 0.01
"""Relative standard deviation of a machine's speed from phase to phase, at least."""


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """A `CostFunction` of the policy simulator."""

    coefficients: tuple[float, ...]
    """The shared ones, then those of the draft model, seconds per unit of the feature."""
    graphs: GraphSizes
    pace: float = 1.0
    """Factor on every step: a machine that is slower than when it was recorded."""

    def step_s(self, shape: StepShape) -> float:
        """See `CostFunction`. Replay scoring is one more draft pass; backfill is not priced."""
        passes, requests = float(shape.draft_passes), float(shape.num_requests)
        drafts = passes * requests
        if shape.replay_scoring_requests:
            passes += 1.0
            drafts += shape.replay_scoring_requests
        features = (
            *_target_features(
                requests,
                shape.verified_draft_tokens,
                shape.prefill_tokens,
                shape.context_tokens,
                self.graphs,
            ),
            passes,
            drafts,
        )
        return self.pace * sum(map(float.__mul__, self.coefficients, features))


@dataclass(frozen=True, slots=True)
class StepData:
    """The clean cells of the recordings of one machine, one row each."""

    features: Floats
    """(num_cells, num_features): the shared ones, then two for every recording."""
    seconds: Floats
    """(num_cells,)"""
    counts: Floats
    block: npt.NDArray[np.int64]
    """The block of each cell, (num_cells,)."""
    graphs: GraphSizes

    @property
    def num_blocks(self) -> int:
        return int(self.block.max(initial=-1)) + 1


def gather_steps(
    recordings: Sequence[tuple[Sequence[StepBlock], Callable[[int], int]]], graphs: GraphSizes
) -> StepData:
    """Gather the clean cells of each recording, given with its passes for a draft length."""
    rows: list[tuple[float, ...]] = []
    seconds: list[float] = []
    counts: list[float] = []
    blocks: list[int] = []
    number = 0
    for index, (recorded, passes_of) in enumerate(recordings):
        for block in recorded:
            for cell in block.cells:
                if not cell.is_clean or cell.num_requests == 0 or cell.seconds <= 0.0:
                    continue
                passes = float(passes_of(cell.draft_length))
                drafts = [0.0] * (2 * len(recordings))
                drafts[2 * index : 2 * index + 2] = [passes, passes * cell.num_requests]
                shared = _target_features(
                    float(cell.num_requests),
                    cell.verified_tokens,
                    cell.prefill_tokens,
                    cell.context_tokens,
                    graphs,
                )
                rows.append((*shared, *drafts))
                seconds.append(cell.seconds)
                counts.append(float(cell.count))
                blocks.append(number)
            number += 1
    num_features = _NUM_SHARED + 2 * len(recordings)
    return StepData(
        np.array(rows, dtype=float).reshape(-1, num_features),
        np.array(seconds),
        np.array(counts),
        np.array(blocks, dtype=np.int64),
        graphs,
    )


def fit_cost(data: StepData, random: np.random.Generator | None = None) -> Floats:
    """Fit the coefficients, (num_features,): the estimate, or one replicate drawn by `random`."""
    weights = 1.0 / (data.seconds**2 * (_STEP_NOISE**2 / data.counts + _CELL_NOISE**2))
    unit_s = float(data.seconds.min())
    num_drafters = (data.features.shape[1] - _NUM_SHARED) // 2
    prior = [*_SHARED_PRIOR, *(_DRAFT_PRIOR * num_drafters)]
    mean = unit_s * np.array([mean for _, mean, _ in prior])
    spread = unit_s * np.array([spread for _, _, spread in prior])
    if random is not None:
        drawn = random.multinomial(data.num_blocks, np.full(data.num_blocks, 1 / data.num_blocks))
        weights = weights * drawn[data.block]
        mean = np.maximum(mean + spread * random.standard_normal(len(mean)), 0.0)
    weighted = data.features * weights[:, None]
    gram = weighted.T @ data.features + np.diag(1.0 / spread**2)
    moment = weighted.T @ data.seconds + mean / spread**2
    return _non_negative(gram, moment)


def cost_of(
    coefficients: Floats, data: StepData, drafter: int = 0, pace: float = 1.0
) -> MeasuredCost:
    """The cost with the draft model of recording number `drafter`."""
    first = _NUM_SHARED + 2 * drafter
    chosen = (*coefficients[:_NUM_SHARED].tolist(), *coefficients[first : first + 2].tolist())
    return MeasuredCost(chosen, data.graphs, pace)


def drift(data: StepData, coefficients: Floats) -> float:
    """Relative standard deviation of the machine's speed, from block to block.

    It is taken for that from phase to phase too, which is cautious: longer averages vary less.
    """
    expected = data.features @ coefficients * data.counts
    sums = np.bincount(data.block, data.seconds * data.counts, data.num_blocks)
    predicted = np.bincount(data.block, expected, data.num_blocks)
    has_steps = predicted > 0
    ratios = np.log(sums[has_steps] / predicted[has_steps])
    deviation = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
    return max(deviation, _LEAST_DRIFT)


def _target_features(
    requests: float, verified: float, prefill: float, context: float, graphs: GraphSizes
) -> tuple[float, ...]:
    tokens = float(graphs.pad(requests + verified + prefill))
    return (
        1.0,
        requests,
        1.0 if verified > 0 else 0.0,
        verified,
        1e-3 * context,
        1.0 if prefill > 0 else 0.0,
        tokens,
        max(tokens - _KNOTS[0], 0.0),
        max(tokens - _KNOTS[1], 0.0),
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
