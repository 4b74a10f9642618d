"""Cells that cannot win keep no other cell from being measured, scored or chosen."""

from __future__ import annotations

from collections.abc import Callable

from paceline.workbench.tune.search import Outcome, ServerFailure, search
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Measurement,
    Purpose,
    RestartConfig,
    SearchProblem,
    Trial,
)
from unit.tune.simulated import make_problem

BIG, SMALL = RestartConfig((("size", "big"),)), RestartConfig((("size", "small"),))
Answer = Callable[[Trial], Measurement | None]


def block(rate_per_s: float, attained: float) -> Measurement:
    """200 requests, of which a share meets the SLO."""
    met = round(200 * attained)
    return Measurement(rate_per_s * attained, rate_per_s, 0.0, 200, met, 0, None, None)


def problem_of(
    limits: dict[RestartConfig, tuple[int, ...]], predicted: dict[RestartConfig, float]
) -> SearchProblem:
    settings = {one: tuple(LiveSetting(None, limit) for limit in limits[one]) for one in limits}
    cells = {Cell(one, live): predicted[one] for one in settings for live in settings[one]}
    return make_problem(settings=settings, predicted=cells, max_blocks=40)


def run(problem: SearchProblem, answer: Answer) -> tuple[Outcome, list[Trial]]:
    """Run the search; where `answer` gives None the server has crashed."""
    running, trials = search(problem), []
    one = next(running)
    while True:
        trials += one.trials
        blocks = [answer(trial) for trial in one.trials]
        measured = [one for one in blocks if one is not None]
        try:
            failed = len(measured) < len(blocks)
            one = running.send(ServerFailure("crashed") if failed else measured)
        except StopIteration as end:
            return end.value, trials


def test_a_faster_setting_that_surely_misses_does_not_end_the_scoring() -> None:
    """32 in flight: 50 per s, 80 % within the SLO. 8 in flight: 20 per s, all within."""

    def answer(trial: Trial) -> Measurement:
        return block(50.0, 0.8) if trial.cell.live.max_in_flight == 32 else block(20.0, 1.0)

    outcome, _ = run(problem_of({BIG: (8, 32)}, {BIG: 1.0}), answer)
    assert outcome.winner is not None
    assert outcome.winner.cell.live.max_in_flight == 8
    assert outcome.tried[0].cell.live.max_in_flight == 32


def test_finalists_that_miss_the_slo_do_not_end_the_search() -> None:
    """The big server is ten times faster, and meets the SLO on search prompts alone."""

    def answer(trial: Trial) -> Measurement:
        if trial.cell.restart == SMALL:
            return block(5.0, 1.0)
        return block(50.0, 1.0 if trial.purpose is Purpose.SEARCH else 0.5)

    limits = {BIG: (8, 16), SMALL: (8, 16)}
    outcome, _ = run(problem_of(limits, {BIG: 10.0, SMALL: 1.0}), answer)
    assert [one.meets_slo for one in outcome.finalists] == [False, False, True]
    assert outcome.winner is not None
    assert outcome.winner.cell.restart == SMALL


def test_cells_of_a_crashed_server_do_not_shorten_the_search_on_the_next() -> None:
    def answer(trial: Trial) -> Measurement | None:
        if trial.cell.restart == SMALL:
            return block(5.0, 1.0)
        return block(50.0, 1.0) if trial.purpose is Purpose.SEARCH else None

    limits = {BIG: (8, 16), SMALL: (4, 8, 16, 32)}
    outcome, trials = run(problem_of(limits, {BIG: 10.0, SMALL: 1.0}), answer)
    assert outcome.failures == {BIG: "crashed"}
    assert outcome.winner is not None
    searched = [
        trial
        for trial in trials
        if trial.cell == outcome.winner.cell and trial.purpose is Purpose.SEARCH
    ]
    assert len(searched) > 1


def test_at_most_three_settings_of_a_server_are_scored() -> None:
    """Each further one would be another chance to meet the SLO by luck."""

    def answer(trial: Trial) -> Measurement:
        rate_per_s = float(trial.cell.live.max_in_flight)
        return block(rate_per_s, 1.0 if trial.purpose is Purpose.SEARCH else 0.5)

    limits = {BIG: (1, 2, 4, 8, 16, 32)}
    outcome, _ = run(problem_of(limits, {BIG: 1.0}), answer)
    assert outcome.winner is None
    assert [one.cell.live.max_in_flight for one in outcome.finalists] == [32, 16, 8]
