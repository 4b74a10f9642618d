"""Servers and state of a search: interrupted anywhere and resumed, it gives the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.workbench.tune.live.carry_out import carry_out
from paceline.workbench.tune.search import Outcome
from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import SearchProblem
from unit.tune.simulated import (
    Interrupted,
    SimulatedLauncher,
    Truth,
    grid,
    make_problem,
    run_search,
    trials_of,
)

BROKEN = frozenset({list(grid())[1]})


def _problem() -> SearchProblem:
    return make_problem(max_blocks=22, max_starts=3)


async def _interrupted_after(num_trials: int, truth: Truth, file: Path) -> SimulatedLauncher:
    try:
        state = TuneState.begin(_problem(), {}, file)
    except FileExistsError:
        state = TuneState.resume({}, file)
    launcher = SimulatedLauncher(truth, max_trials=num_trials)
    with pytest.raises(Interrupted):
        await carry_out(state, launcher)
    return launcher


async def _finish(truth: Truth, file: Path) -> tuple[Outcome, SimulatedLauncher]:
    launcher = SimulatedLauncher(truth)
    return await carry_out(TuneState.resume({}, file), launcher), launcher


async def test_a_search_starts_each_server_once_and_stops_it() -> None:
    truth = Truth(0, broken=BROKEN)
    launcher = SimulatedLauncher(truth)
    state = TuneState.begin(_problem(), {}, None)
    outcome = await carry_out(state, launcher)
    expected, rounds = run_search(_problem(), truth)
    assert outcome == expected
    assert len(launcher.started) == len(set(launcher.started)) == outcome.num_starts
    assert state.num_starts == outcome.num_starts
    assert launcher.num_running == 0
    num_measured = sum(one.restart not in BROKEN for one in rounds for _ in one.trials)
    assert len(state.measurements) == num_measured


async def test_interrupted_at_any_trial_and_resumed_it_gives_the_same_answer(
    tmp_path: Path,
) -> None:
    truth = Truth(1, broken=BROKEN)
    expected, rounds = run_search(_problem(), truth)
    num_trials = sum(1 for one in rounds if one.restart not in BROKEN for _ in one.trials)
    assert num_trials >= 8
    for num_before in range(num_trials):
        file = tmp_path / f"{num_before}.jsonl"
        launcher = await _interrupted_after(num_before, truth, file)
        assert launcher.num_running == 0
        outcome, resumed = await _finish(truth, file)
        assert outcome == expected
        assert len(launcher.started) + len(resumed.started) <= expected.num_starts + 1


async def test_a_search_can_be_interrupted_after_every_trial(tmp_path: Path) -> None:
    truth, file = Truth(2), tmp_path / "state.jsonl"
    expected, rounds = run_search(_problem(), truth)
    num_trials = len(list(trials_of(rounds)))
    for _ in range(num_trials - 1):
        await _interrupted_after(1, truth, file)
    outcome, _ = await _finish(truth, file)
    assert outcome == expected


async def test_a_finished_search_starts_no_server_when_it_is_repeated(tmp_path: Path) -> None:
    truth, file = Truth(0), tmp_path / "state.jsonl"
    first = await carry_out(TuneState.begin(_problem(), {}, file), SimulatedLauncher(truth))
    again, launcher = await _finish(truth, file)
    assert again == first
    assert launcher.started == []
