"""The steps of recordings as rows of a fit: their work, their times and the run they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.foundation.recording.records import StepBlock, StepCell
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.testing.policy_simulator.machines.graphs import GraphSizes
from paceline.workbench.plan.replay.cost import DRAFT_PRIOR, SHARED_PRIOR, target_features

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    squares: Floats
    """Sums of squared deviations of the steps' times, seconds², (num_cells,)"""
    block: Ints
    """The block of each cell, (num_cells,), ascending."""
    run: Ints
    """The run of blocks, (num_cells,), ascending."""
    recording: Ints
    """(num_cells,), ascending."""
    has_tables: bool = False
    """Whether the engines' tables of costs are among the features."""

    @property
    def num_blocks(self) -> int:
        """Blocks with clean cells."""
        return int(self.block.max(initial=-1)) + 1

    def mean_of_run(self, values: Floats, weights: Floats) -> Floats:
        """For each cell the weighted mean of `values` over its run, (num_cells,)."""
        means: Floats = np.bincount(self.run, weights * values) / np.bincount(self.run, weights)
        return means[self.run]


def gather_steps(
    recordings: Sequence[tuple[Sequence[StepBlock], Callable[[int], int]]],
    graphs: GraphSizes,
    tables: Sequence[CostModel] = (),
) -> StepData:
    """Gather the clean cells of each recording, given with its passes for a draft length.

    `tables` has what the engine of each recording measured at its start; empty if one lacks it.
    """
    rows: list[tuple[float, ...]] = []
    times: list[tuple[float, int, float]] = []
    places: list[tuple[int, int, int]] = []
    num_blocks = num_runs = 0
    for index, (recorded, passes_of) in enumerate(recordings):
        blocks = [cells for block in recorded if (cells := _clean_cells(block))]
        run_blocks = min(_MAX_RUN_BLOCKS, max(len(blocks) // _MIN_RUNS, 1))
        for number, cells in enumerate(blocks):
            for cell in cells:
                passes = passes_of(cell.draft_length)
                drafts = [0.0] * (len(DRAFT_PRIOR) * len(recordings))
                drafts[2 * index : 2 * index + 2] = [
                    float(passes), float(passes * cell.num_requests),
                ]  # fmt: skip
                shared = target_features(
                    cell.num_requests,
                    cell.verified_tokens,
                    cell.prefill_tokens,
                    cell.context_tokens,
                    passes,
                    graphs,
                    tables[index] if tables else None,
                )
                rows.append((*shared, *drafts))
                times.append((cell.seconds, cell.count, cell.squares))
                places.append((num_blocks + number, num_runs + number // run_blocks, index))
        num_blocks += len(blocks)
        num_runs += -(-len(blocks) // run_blocks)
    num_features = len(SHARED_PRIOR) + len(DRAFT_PRIOR) * len(recordings)
    seconds, counts, squares = np.array(times, dtype=float).reshape(-1, 3).T
    block, run, recording = np.array(places, dtype=np.int64).reshape(-1, 3).T
    features = np.array(rows, dtype=float).reshape(-1, num_features)
    return StepData(features, seconds, counts, squares, block, run, recording, bool(tables))


def _clean_cells(block: StepBlock) -> list[StepCell]:
    return [
        cell
        for cell in block.cells
        if cell.is_clean and cell.num_requests > 0 and cell.seconds > 0.0
    ]
