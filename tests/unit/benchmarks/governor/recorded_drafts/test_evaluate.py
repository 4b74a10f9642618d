"""Traces are determined by their seed, and the script writes a result and prints a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from benchmarks.governor.recorded_drafts.evaluate import render_scores, run_trace
from benchmarks.governor.recorded_drafts.machines import build_machine
from benchmarks.governor.recorded_drafts.recordings import read_recordings
from benchmarks.governor.recorded_drafts.scoring import score_arms
from benchmarks.governor.recorded_drafts.traces import build_trace

TWIN = build_machine("cpu-twin")


def test_seeds_change_order_and_lengths_of_a_trace_but_not_its_phases() -> None:
    first, second = (build_trace("broad", TWIN, seed) for seed in (0, 1))
    assert first == build_trace("broad", TWIN, 0)
    names = [[phase.name for phase in trace.phases] for trace in (first, second)]
    assert names[0] != names[1]
    assert Counter(names[0]) == Counter(names[1])
    assert len(set(names[0])) == len(names[0]) == 17


def test_the_twelve_phases_repeat_two() -> None:
    names = Counter(phase.name for phase in build_trace("twelve", TWIN, 0).phases)
    assert {name for name, count in names.items() if count == 2} == {
        "1-predictable",
        "4-code_at_1",
    }
    assert names.total() == 12


def test_no_length_leads_the_oracle_and_the_clairvoyant_does() -> None:
    """On the lowest loads alone, to be quick."""
    small = replace(TWIN, loads=(1, 2, 3, 4))
    recordings = read_recordings()
    runs = [run_trace("twelve", small, recordings, seed, ("clairvoyant",)) for seed in range(2)]
    scores = score_arms(runs, ("K=0", "K=2", "K=4", "K=8"))
    assert scores["clairvoyant"].of_oracle > 1.0
    assert max(score.of_oracle for name, score in scores.items() if "K" in name) < 1.02
    assert render_scores(scores).count("\n") == 1 + len(scores)
