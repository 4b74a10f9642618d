"""The JSON document of a tuning. docs/how-to/tune.md describes its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.foundation.results.environment import Environment
from paceline.workbench.tune.search import Finalist, Outcome, TriedCell
from paceline.workbench.tune.search.outcome import Advantage
from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import POLICY, Cell

SCHEMA_VERSION = 1
METHOD = (
    "Closed loop of max_in_flight requests. Good requests meet the SLO; a request counts by the "
    "fraction of its duration within the window. Search: successive halving on one server after "
    "another, by a Gaussian process over the log of good requests per second and dollar. The "
    "winner is the finalist with the highest estimate that meets the SLO on qualifying requests, "
    "which enter no estimate; the finalists' intervals of the attained fraction hold all at once "
    "(Bonferroni). The winner's figures are those of held-out requests, by which nothing was "
    "chosen."
)


@dataclass(frozen=True, slots=True)
class Context:
    """What was asked, beside the problem."""

    question: Mapping[str, Any]
    """The options that decide the result."""
    environment: Environment
    num_grid_cells: int
    dropped: Mapping[str, str]
    """Configurations that the planner dropped, with the reason."""
    notes: Sequence[str]
    winning_config: Mapping[str, Any] | None = None
    """The paceline.yaml of the winner; None without a winner, or with --server-command."""
    winning_command: Sequence[str] | None = None


def render_document(context: Context, state: TuneState, outcome: Outcome | None) -> dict[str, Any]:
    """The document. Without an outcome (an interrupted tuning) it lists the trials."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline tune",
        "is_interrupted": outcome is None,
        "winner": None
        if outcome is None or outcome.winner is None
        else {
            **_finalist(outcome.winner),
            "config": context.winning_config,
            "command": context.winning_command,
        },
        "best_tried": None
        if outcome is None or outcome.best_tried is None
        else _finalist(outcome.best_tried),
        "num_untried_that_could_be_better": None if outcome is None else outcome.num_open,
        "advantages": [] if outcome is None else [_advantage(one) for one in outcome.advantages],
        "finalists": [] if outcome is None else [_finalist(one) for one in outcome.finalists],
        "tried": [] if outcome is None else [_tried(one) for one in outcome.tried],
        "num_grid_cells": context.num_grid_cells,
        "num_cells": len(state.problem.cells),
        "num_starts": state.num_starts,
        "num_search_blocks": None if outcome is None else outcome.num_search_blocks,
        "num_qualifying_blocks": None if outcome is None else outcome.num_qualifying_blocks,
        "num_held_out_blocks": None if outcome is None else outcome.num_held_out_blocks,
        "max_starts": state.problem.max_starts,
        "max_blocks": state.problem.max_blocks,
        "why_ended": "interrupted" if outcome is None else outcome.why_ended,
        "dropped": dict(context.dropped),
        "failures": {restart.label: reason for restart, reason in state.failures.items()},
        "notes": list(context.notes),
        "question": dict(context.question),
        "method": METHOD,
        "environment": asdict(context.environment),
        "trials": [
            {
                **cell_document(trial.cell),
                "purpose": trial.purpose.value,
                "sequence": trial.sequence,
                **asdict(measurement),
            }
            for trial, measurement in state.measurements.items()
        ],
    }


def cell_document(cell: Cell) -> dict[str, Any]:
    """The values of a cell."""
    length = POLICY if cell.live.draft_length is None else cell.live.draft_length
    return {
        "restart": dict(cell.restart.settings),
        "live": {"draft_length": length, "max_in_flight": cell.live.max_in_flight},
    }


def _finalist(finalist: Finalist) -> dict[str, Any]:
    return {
        **cell_document(finalist.cell),
        "good_requests_per_s": finalist.good_requests_per_s,
        "good_requests_per_s_ci95": finalist.good_requests_per_s_ci95,
        "good_requests_per_usd": finalist.good_requests_per_usd,
        "attained_fraction": finalist.attained_fraction,
        "attained_fraction_ci95": finalist.attained_fraction_ci95,
        "meets_slo": finalist.meets_slo,
        "num_blocks": len(finalist.blocks),
    }


def _tried(tried: TriedCell) -> dict[str, Any]:
    return {
        **cell_document(tried.cell),
        "num_blocks": tried.num_blocks,
        "good_requests_per_s": tried.good_requests_per_s,
        "attained_fraction": tried.attained_fraction,
        "estimate": tried.estimate,
        "surely_misses_slo": tried.surely_misses_slo,
    }


def _advantage(advantage: Advantage) -> dict[str, Any]:
    return {
        "over": cell_document(advantage.over),
        "relative": advantage.relative,
        "low": advantage.low,
        "high": advantage.high,
    }
