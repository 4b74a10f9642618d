"""Fit the time of an engine step to the clean cells of recordings.

Least squares with a prior. What a recording leaves undetermined (only one draft length was run, or
only one number of requests), the prior decides, and its spread shows in the interval: every
replicate is fitted to another draw of the recording, with the prior's mean itself drawn from the
prior. For a linear model with normal noise the replicates are draws from the posterior (Osband et
al., "Randomized Prior Functions", NeurIPS 2018, section 3).

The machine's speed changes over time, so steps of the same time deviate together. A recording is
divided into runs of blocks, at most 30 s each. The steps of a run share a factor on their time,
normal, whose spread is that of the blocks. It is integrated out: with the work A and the times y of
a run, both relative to the expected times, and the weights W of its cells,

    information = A' W A - c (A' W 1) (A' W 1)',    c = pace² / (1 + pace² 1' W 1)

and the same with y in place of the last A. Hence the coefficients depend little on load that
changed together with the speed, and a replicate draws runs rather than steps or blocks.

A second recording, of another drafter on the same machine, shares everything but the two
coefficients of the draft model. Its pace relative to the first is estimated too, with a prior.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.plan.replay.cost import DRAFT_PRIOR, SHARED_PRIOR, target_features
from paceline.policy_simulator.machines.graphs import GraphSizes
from paceline.recording.records import StepBlock, StepCell

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEP_NOISE = 0.05
"""Relative standard deviation of one step's time. Chosen empirically, as in the governor."""
_CELL_NOISE = 0.005
"""The same of a cell of many steps, whose shapes differ within the cell. Chosen empirically."""
_LEAST_DRIFT = 0.01
"""Relative standard deviation of a machine's speed from phase to phase, at least."""
_MAX_RUN_BLOCKS = 6
"""Of 5 s each. Chosen empirically: some answers long, so that the load changes within a run."""
_MIN_RUNS = 8
"""A recording with fewer blocks than this many runs of the full length has shorter runs."""


@dataclass(frozen=True, slots=True)
class StepData:
    """The clean cells of the recordings of one machine, one row each, in the order of time."""

    features: Floats
    """(num_cells, num_features): the shared ones, then two for every recording."""
    seconds: Floats
    """(num_cells,)"""
    counts: Floats
    block: Ints
    """The block of each cell, (num_cells,), ascending."""
    run: Ints
    """The run of blocks, (num_cells,), ascending."""
    recording: Ints
    """(num_cells,), ascending."""

    @property
    def num_blocks(self) -> int:
        """Blocks with clean cells."""
        return int(self.block.max(initial=-1)) + 1


def gather_steps(
    recordings: Sequence[tuple[Sequence[StepBlock], Callable[[int], int]]], graphs: GraphSizes
) -> StepData:
    """Gather the clean cells of each recording, given with its passes for a draft length."""
    rows: list[tuple[float, ...]] = []
    times: list[tuple[float, int]] = []
    places: list[tuple[int, int, int]] = []
    num_blocks = num_runs = 0
    for index, (recorded, passes_of) in enumerate(recordings):
        blocks = [cells for block in recorded if (cells := _clean_cells(block))]
        run_blocks = min(_MAX_RUN_BLOCKS, max(len(blocks) // _MIN_RUNS, 1))
        for number, cells in enumerate(blocks):
            for cell in cells:
                passes = float(passes_of(cell.draft_length))
                drafts = [0.0] * (len(DRAFT_PRIOR) * len(recordings))
                drafts[2 * index : 2 * index + 2] = [passes, passes * cell.num_requests]
                shared = target_features(
                    float(cell.num_requests),
                    cell.verified_tokens,
                    cell.prefill_tokens,
                    cell.context_tokens,
                    graphs,
                )
                rows.append((*shared, *drafts))
                times.append((cell.seconds, cell.count))
                places.append((num_blocks + number, num_runs + number // run_blocks, index))
        num_blocks += len(blocks)
        num_runs += -(-len(blocks) // run_blocks)
    num_features = len(SHARED_PRIOR) + len(DRAFT_PRIOR) * len(recordings)
    seconds, counts = np.array(times, dtype=float).reshape(-1, 2).T
    block, run, recording = np.array(places, dtype=np.int64).reshape(-1, 3).T
    features = np.array(rows, dtype=float).reshape(-1, num_features)
    return StepData(features, seconds, counts, block, run, recording)


@dataclass(frozen=True, slots=True)
class CostFit:
    """The estimate, and what its replicates are drawn from.

    The unknowns are the coefficients of the features, which are not negative, and the paces of all
    recordings but the first, relative to it.
    """

    coefficients: Floats
    """The estimate, (num_features,)"""
    pace_deviation: float
    """Relative standard deviation of the machine's speed, from block to block. It is taken for that
    from phase to phase too, which is cautious: longer averages vary less."""
    prior_mean: Floats
    """(num_unknowns,)"""
    prior_spread: Floats
    information: Floats
    """Of each run, (num_runs, num_unknowns, num_unknowns)"""
    moments: Floats
    """(num_runs, num_unknowns)"""
    recording: Ints
    """Of each run, (num_runs,)"""

    def draw(self, random: np.random.Generator) -> Floats:
        """The coefficients of one replicate, (num_features,)."""
        drawn = np.zeros(len(self.recording))
        for number in np.unique(self.recording):
            runs = np.flatnonzero(self.recording == number)
            drawn[runs] = random.multinomial(len(runs), np.full(len(runs), 1 / len(runs)))
        mean = self.prior_mean + self.prior_spread * random.standard_normal(len(self.prior_mean))
        num_features = len(self.coefficients)
        mean[:num_features] = np.maximum(mean[:num_features], 0.0)
        return _solve(
            (drawn[:, None, None] * self.information).sum(axis=0),
            drawn @ self.moments,
            mean,
            self.prior_spread,
            num_features,
        )


def fit_cost(data: StepData) -> CostFit:
    """Fit the coefficients to at least one cell."""
    num_features = data.features.shape[1]
    num_drafters = (num_features - len(SHARED_PRIOR)) // len(DRAFT_PRIOR)
    num_paces = num_drafters - 1
    unit_s = float(data.seconds.min())
    prior = unit_s * np.array(
        [*SHARED_PRIOR.values(), *(list(DRAFT_PRIOR.values()) * num_drafters)]
    )
    expected = data.features @ _rough_fit(data, prior)
    pace_deviation = _drift(data, expected)

    is_of = data.recording[:, None] == np.arange(1, num_drafters)
    work = np.hstack([data.features / expected[:, None], is_of])
    times = data.seconds / expected
    weights = 1.0 / (_STEP_NOISE**2 / data.counts + _CELL_NOISE**2)
    begins = np.flatnonzero(np.diff(data.run, prepend=-1)).tolist()
    runs = [
        _of_run(work[begin:end], times[begin:end], weights[begin:end], pace_deviation)
        for begin, end in itertools.pairwise([*begins, len(times)])
    ]
    information = np.array([information for information, _ in runs])
    moments = np.array([moment for _, moment in runs])

    # Each of the two paces that are compared deviates.
    prior_spread = np.append(prior[:, 1], np.full(num_paces, np.sqrt(2.0) * pace_deviation))
    prior_mean = np.append(prior[:, 0], np.zeros(num_paces))
    return CostFit(
        coefficients=_solve(
            information.sum(axis=0), moments.sum(axis=0), prior_mean, prior_spread, num_features
        ),
        pace_deviation=pace_deviation,
        prior_mean=prior_mean,
        prior_spread=prior_spread,
        information=information,
        moments=moments,
        recording=data.recording[begins],
    )


def _clean_cells(block: StepBlock) -> list[StepCell]:
    return [
        cell
        for cell in block.cells
        if cell.is_clean and cell.num_requests > 0 and cell.seconds > 0.0
    ]


def _rough_fit(data: StepData, prior: Floats) -> Floats:
    """The coefficients where all steps deviate by themselves, (num_features,)."""
    weights = 1.0 / (data.seconds**2 * (_STEP_NOISE**2 / data.counts + _CELL_NOISE**2))
    weighted = data.features * weights[:, None]
    return _solve(
        weighted.T @ data.features,
        weighted.T @ data.seconds,
        prior[:, 0],
        prior[:, 1],
        data.features.shape[1],
    )


def _drift(data: StepData, expected: Floats) -> float:
    """See `CostFit.pace_deviation`."""
    measured_s = np.bincount(data.block, data.seconds * data.counts)
    expected_s = np.bincount(data.block, expected * data.counts)
    ratios = np.log(measured_s / expected_s)
    deviation = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
    return max(deviation, _LEAST_DRIFT)


def _of_run(
    work: Floats, times: Floats, weights: Floats, pace_deviation: float
) -> tuple[Floats, Floats]:
    """The information and the moment of one run, see the module."""
    weighted = work * weights[:, None]
    common, total = weighted.sum(axis=0), float(weights.sum())
    share = pace_deviation**2 / (1.0 + pace_deviation**2 * total)
    information = weighted.T @ work - share * np.outer(common, common)
    moment = weighted.T @ times - share * common * float(weights @ times)
    return information, moment


def _solve(
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
