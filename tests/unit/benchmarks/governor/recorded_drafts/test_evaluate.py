"""Traces are determined by their seed, and the script writes a result and prints a table."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.governor.recorded_drafts.arms import build_arm
from benchmarks.governor.recorded_drafts.evaluate import main, run_trace
from benchmarks.governor.recorded_drafts.machines import build_machine
from benchmarks.governor.recorded_drafts.recordings import read_recordings
from benchmarks.governor.recorded_drafts.replay import Replay
from benchmarks.governor.recorded_drafts.scoring import score_arms
from benchmarks.governor.recorded_drafts.traces import build_trace
from benchmarks.results_file import read_result

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


def test_every_phase_of_the_starts_has_an_arm_that_learned_nothing() -> None:
    """So its rate does not depend on the phases before: the same as alone."""
    recordings = read_recordings()
    trace = build_trace("starts", TWIN, 0)
    run = run_trace("starts", TWIN, recordings, 0, ("goodput",))
    assert len(trace.phases) == 6
    for phase, rate in zip(trace.phases, run.rates["goodput"], strict=True):
        alone = Replay(TWIN, recordings, build_arm("goodput", TWIN, 0)).run(phase)
        assert alone.tokens_per_s == rate


def test_no_length_leads_the_oracle_and_the_clairvoyant_does() -> None:
    """On the lowest loads alone, to be quick."""
    small = replace(TWIN, loads=(1, 2, 3, 4))
    recordings = read_recordings()
    runs = [run_trace("twelve", small, recordings, seed, ("clairvoyant",)) for seed in range(2)]
    scores = score_arms(runs, ("K=0", "K=2", "K=4", "K=8"))
    assert scores["clairvoyant"].of_oracle > 1.0
    assert max(score.of_oracle for name, score in scores.items() if "K" in name) < 1.02


def test_the_script_writes_every_rate_and_prints_a_row_for_each_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--machine cpu-twin --trace twelve --seeds 2 --arms K=1 --allow-dirty --results"
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *options.split(), str(tmp_path)])
    main()
    (path,) = tmp_path.iterdir()
    result = read_result(path)
    arms = ["K=0", "K=2", "K=4", "K=8", "K=1"]
    assert list(result["scores"]) == list(result["runs"][1]["rates"]) == arms
    assert len(result["runs"][1]["rates"]["K=1"]) == 12
    printed = capsys.readouterr().out
    assert [line.split(" |")[0] for line in printed.splitlines() if "| K=" in line] == [
        f"| {arm}" for arm in arms
    ]


def test_an_arm_that_does_not_exist_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "--arms", "K=9"])
    with pytest.raises(SystemExit):
        main()
    assert "--arms: policy is 'K=9'" in capsys.readouterr().err
