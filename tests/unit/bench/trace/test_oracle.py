"""The comparison with other runs, and the reports that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.load.config import BenchError
from paceline.workbench.bench.trace.figures import TraceFigures, compute_figures
from paceline.workbench.bench.trace.oracle import EarlierRun, compare, read_run
from paceline.workbench.bench.trace.report import identify, render_document
from unit.bench.trace.runs import closed, make_trace, measurement, record, scripted

TRACE = make_trace(
    [scripted("easy", 0.9)],
    [closed("a", 1, "easy", 10.0), closed("b", 1, "easy", 30.0)],
)
NAMES = ["a", "b"]


def run_of(tokens_a: int, tokens_b: int) -> tuple[Any, TraceFigures]:
    """A run that yields these tokens in 10 and in 30 seconds."""
    run = measurement(TRACE)
    run.log.starts_s, run.log.ends_s = [0.0, 10.0], [10.0, 40.0]
    run.log.records = [record(0, 0.0, 5.0, tokens_a), record(1, 10.0, 20.0, tokens_b, phase=1)]
    return run, compute_figures(run)


def test_rates_count_the_tokens_that_arrive_in_a_phase() -> None:
    _, figures = run_of(1000, 600)
    assert [phase.output_tokens_per_s for phase in figures.phases] == [100, 20]
    assert figures.output_tokens_per_s == 40
    assert figures.is_valid


def test_the_oracle_is_the_best_other_run_of_each_phase() -> None:
    """The oracle yields 1000 in 10 s and 1200 in 30 s; this run 800 and 900: 1700 of 2200."""
    _, figures = run_of(800, 900)
    others = [EarlierRun("K=4", {"a": 100.0, "b": 20.0}), EarlierRun("K=0", {"a": 50.0, "b": 40.0})]
    found = compare(figures, others)
    assert found is not None
    assert [(phase.oracle, phase.fraction_of_oracle) for phase in found.phases] == [
        ("K=4", 0.8),
        ("K=0", 0.75),
    ]
    assert found.fraction_of_oracle == pytest.approx(1700 / 2200)
    assert found.mean_phase_fraction == pytest.approx(0.775)
    assert (found.worst_phase, found.worst_phase_fraction) == ("b", 0.75)
    assert found.best_single == "K=0"  # 1700 tokens in the same time, K=4 yields 1600
    assert found.fraction_of_best_single == pytest.approx(1.0)


def test_without_other_runs_there_is_no_comparison() -> None:
    _, figures = run_of(800, 900)
    assert compare(figures, []) is None


def written(path: Path, **changes: Any) -> Path:
    """The report of a run, with keys replaced; those of `trace` by `trace_…`."""
    run, figures = run_of(1000, 600)
    document = json.loads(json.dumps(render_document(run, figures, None)))
    for key, value in changes.items():
        if key.startswith("trace_"):
            document["trace"][key.removeprefix("trace_")] = value
        else:
            document[key] = value
    path.write_text(json.dumps(document))
    return path


def test_a_report_is_read_back(tmp_path: Path) -> None:
    identity = identify(measurement(TRACE).config)
    found = read_run(written(tmp_path / "k4.json"), identity, NAMES)
    assert found == EarlierRun("k4", {"a": 100.0, "b": 20.0})
    labelled = written(tmp_path / "k4.json", trace_label="K=4")
    assert read_run(labelled, identity, NAMES).label == "K=4"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "paceline bench run"}, "is no report of paceline bench trace"),
        ({"trace_sha256": "0"}, "ran with sha256 '0' and this run with"),
        ({"trace_acceptance": "text"}, "ran with acceptance 'text' and this run with 'scripted'"),
        ({"trace_load_scale": 2.0}, "ran with load_scale 2.0 and this run with 1.0"),
        ({"trace_time_scale": 2.0}, "ran with time_scale 2.0"),
        ({"trace_seed": 7}, "ran with seed 7"),
        ({"phases": []}, "has no rate for phase 'a'"),
        ({"valid": False, "notes": ["noisy"]}, "is not valid: noisy"),
    ],
)
def test_reports_that_cannot_be_compared_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = written(tmp_path / "other.json", **changes)
    with pytest.raises(BenchError, match=message):
        read_run(path, identify(measurement(TRACE).config), NAMES)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{")
    with pytest.raises(BenchError, match="cannot read it as JSON"):
        read_run(path, {}, NAMES)
