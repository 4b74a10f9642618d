"""The state file: written as it happens, read back equal, refused for another question."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import Cell, Purpose, RestartConfig, Trial, TuneError
from unit.tune.simulated import Truth, make_problem

QUESTION = {"seed": 0, "slo_ttft_ms": None}


def _filled(file: Path) -> TuneState:
    problem = make_problem()
    prices = dict.fromkeys(problem.settings, 2.0)
    predicted = {problem.cells[3]: 1.5}
    state = TuneState.begin(make_problem(usd_per_hour=prices, predicted=predicted), QUESTION, file)
    first, second = list(problem.settings)[:2]
    state.add_start(first)
    for number, purpose in enumerate(Purpose):
        trial = Trial(Cell(first, problem.settings[first][0]), purpose, number)
        state.add_measurement(trial, Truth(0).measure(trial))
    state.add_start(second)
    state.add_failure(second, "out of memory")
    return state


def test_a_state_is_read_back_equal(tmp_path: Path) -> None:
    file = tmp_path / "state.jsonl"
    written = _filled(file)
    read = TuneState.resume(QUESTION, file)
    assert read.problem == written.problem
    assert read.measurements == written.measurements
    assert len(read.measurements) == len(Purpose) == 3
    assert read.failures == written.failures
    assert read.num_starts == 2


def test_a_line_that_a_crash_cut_off_is_dropped_and_the_file_can_be_continued(
    tmp_path: Path,
) -> None:
    file = tmp_path / "state.jsonl"
    written = _filled(file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    read = TuneState.resume(QUESTION, file)
    assert read.failures == {}
    assert read.measurements == written.measurements
    read.add_failure(RestartConfig(()), "x")
    again = TuneState.resume(QUESTION, file)
    assert again.failures == {RestartConfig(()): "x"}


def test_another_question_is_refused_with_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "state.jsonl"
    _filled(file)
    with pytest.raises(TuneError, match="a tuning with slo_ttft_ms None; this one has 5"):
        TuneState.resume({**QUESTION, "slo_ttft_ms": 5}, file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no state of paceline tune"),
        ('{"kind":"trial"}\n', "is no state of paceline tune"),
        ("nonsense\n", "is damaged"),
        ('{"kind":"header","schema_version":9}\n', "has schema version 9; this release reads 2"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "state.jsonl"
    file.write_text(text)
    with pytest.raises(TuneError, match=message):
        TuneState.resume(QUESTION, file)


def test_without_a_file_the_state_is_kept_in_memory() -> None:
    state = TuneState.begin(make_problem(), QUESTION, None)
    state.add_start(RestartConfig(()))
    assert state.num_starts == 1
