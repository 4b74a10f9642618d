"""The planner's sign of speculation against measured sweeps, and how cells are read from them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.planner.check_speculation import (
    RESULTS,
    SWEEPS,
    Judged,
    judge,
    share_of,
    step_error,
)
from benchmarks.planner.speculation_cells import (
    Cell,
    DraftCounts,
    fitted_acceptance,
    interleaved_cells,
    trace_cells,
)
from benchmarks.results_file import read_result
from paceline.foundation.capacity.speculation import Acceptance


@pytest.fixture(scope="module")
def judged() -> dict[str, list[Judged]]:
    """The cells of every sweep, by its file."""
    return {sweep.file: judge(sweep, read_result(RESULTS / sweep.file)) for sweep in SWEEPS}


def test_the_sign_is_right_in_95_of_100_held_out_cells_of_a_draft_model(
    judged: dict[str, list[Judged]],
) -> None:
    sweeps = [sweep for sweep in SWEEPS if sweep.is_held_out and sweep.has_draft_model]
    cells = [cell for sweep in sweeps for cell in judged[sweep.file]]
    assert len(cells) == 84
    share = share_of(cells)
    assert share.right >= 0.95 * share.cells
    assert share.settled_right >= 0.95 * share.settled


def test_the_sign_is_right_where_the_repeats_of_the_lookup_agree(
    judged: dict[str, list[Judged]],
) -> None:
    (sweep,) = (sweep for sweep in SWEEPS if not sweep.has_draft_model)
    share = share_of(judged[sweep.file])
    assert share.settled_right >= 0.9 * share.settled


@pytest.mark.parametrize("name", ["twin", "bundled"])
def test_a_step_without_speculation_is_within_a_quarter_of_the_measured_one(name: str) -> None:
    """Or drafts would be compared with an engine that is too slow."""
    document = read_result(RESULTS / f"served-rate-{name}-2026-11-21.json")
    assert abs(step_error(document, is_twin=name == "twin")) <= 0.25


def test_the_sweeps_have_gains_and_losses(judged: dict[str, list[Judged]]) -> None:
    """So that no constant answer is right."""
    cells = [one.cell for found in judged.values() for one in found]
    losses = sum(cell.gain < 0 for cell in cells)
    assert 0.2 < losses / len(cells) < 0.8


def test_an_acceptance_is_found_from_drafts_of_two_lengths() -> None:
    """At 0.5, 100 drafts of 1 token yield 50 and 10 of 2 tokens 7.5."""
    counts = [DraftCounts(1, 100, 50.0), DraftCounts(2, 10, 7.5)]
    assert fitted_acceptance(counts) == pytest.approx(0.5)
    assert fitted_acceptance([DraftCounts(4, 10, 0.0)]) == pytest.approx(0.0)
    assert fitted_acceptance([DraftCounts(4, 10, 40.0)]) == pytest.approx(1.0)


def test_a_cell_is_settled_where_all_repeats_agree() -> None:
    def cell(*ratios: float) -> Cell:
        return Cell("1-code", 1, 150, 2, Acceptance(0.5), ratios)

    assert cell(1.1, 1.3).is_settled
    assert cell(0.9, 0.8).is_settled
    assert not cell(0.9, 1.3).is_settled
    assert cell(0.9, 1.3).gain == pytest.approx(0.1)


def run(arm: str, repeat: int, tokens: int, seconds: float, steps: dict[str, Any]) -> Any:
    return {"phase": "2-code", "arm": arm, "repeat": repeat, "tokens": tokens,
            "seconds": seconds, "steps": steps}  # fmt: skip


def test_an_interleaved_result_is_read() -> None:
    """Two requests with two drafts each: 3 and 1 of 4 accepted; steps with prompts are left out."""
    steps = {"tokens": [2, 5, 3], "requests": [2, 2, 2], "drafted": [4, 4, 4],
             "prompt_tokens": [60, 0, 0]}  # fmt: skip
    document = {
        "plan": {"arms": ["none", "K=2"], "phases": ["2-code"], "context_tokens": 512},
        "runs": [run("none", 0, 10, 1.0, steps), run("K=2", 0, 10, 0.5, steps)],
    }
    (cell,) = interleaved_cells(document)
    assert (cell.requests, cell.draft_length, cell.ratios) == (2, 2, (2.0,))
    assert cell.acceptance.per_token == pytest.approx(0.618, abs=1e-3)  # a + a² = 1


def test_a_trace_is_read_by_phase() -> None:
    """In the second phase, 10 drafts of two tokens in 20 steps: 10 tokens accepted, a + a² = 1."""

    def phases(first: int, second: int) -> list[dict[str, float]]:
        return [{"seconds": 1.0, "tokens": first}, {"seconds": 1.0, "tokens": second}]

    governor = {"t_s": [0.0, 1.0, 2.0], "drafts": [0, 5, 15], "accepted_tokens": [0, 9, 19]}
    document = {
        "plan": {
            "arms": ["none", "K=0", "K=2"],
            "context_tokens": 640,
            "phases": [
                {"name": "easy", "concurrency": 1, "is_long": False},
                {"name": "hard", "concurrency": 8, "is_long": True},
            ],
        },
        "runs": [
            {"arm": "none", "repeat": 0, "phases": phases(10, 40), "governor": governor},
            {"arm": "K=0", "repeat": 0, "phases": phases(9, 39), "governor": governor},
            {"arm": "K=2", "repeat": 0, "phases": phases(20, 30), "governor": governor},
            {"arm": "none", "repeat": 1, "phases": phases(1, 1), "governor": governor},
        ],
    }
    easy, hard = trace_cells(document, is_lookup=True)
    assert easy.ratios == (2.0,)
    assert (hard.requests, hard.context_tokens, hard.ratios) == (8, 640, (0.75,))
    assert hard.acceptance.proposed_fraction == pytest.approx(0.5)
    assert hard.acceptance.per_token == pytest.approx(0.618, abs=1e-3)
    always = trace_cells(document, is_lookup=False)
    assert {cell.acceptance.proposed_fraction for cell in always} == {1.0}
