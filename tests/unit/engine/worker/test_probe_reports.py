"""The state, the failures and the reports of a worker probe, on a fake model runner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.worker.probe_reports import RunnerProbe


@pytest.fixture
def probe() -> RunnerProbe[list[int]]:
    """Its state is a list of numbers."""
    return RunnerProbe("the test probe", report_attribute="paceline_test", make_state=list)


def runner_with(probe: RunnerProbe[list[int]], drafts: Any) -> Any:
    """A runner whose `take_draft_token_ids` returns `drafts` and is wrapped by the probe."""

    class Runner:
        def take_draft_token_ids(self) -> Any:
            return drafts

    Runner.take_draft_token_ids = probe.reporting(Runner.take_draft_token_ids)  # type: ignore[method-assign]
    return Runner()


def test_each_runner_has_its_own_state(probe: RunnerProbe[list[int]]) -> None:
    first, second = SimpleNamespace(), SimpleNamespace()
    probe.run(first, lambda runner, state: state.append(1))
    assert (probe.state(first), probe.state(second)) == ([1], [])


def test_a_report_joins_the_next_drafts_once(probe: RunnerProbe[list[int]]) -> None:
    drafts = SimpleNamespace()
    runner = runner_with(probe, drafts)
    assert probe.is_installed(runner)
    probe.send(runner, {"found": 3})
    assert runner.take_draft_token_ids().paceline_test == {"found": 3}
    del drafts.paceline_test
    assert not hasattr(runner.take_draft_token_ids(), "paceline_test")


def test_a_report_waits_for_a_step_with_a_drafts_object(probe: RunnerProbe[list[int]]) -> None:
    """vLLM returns None in a step that has none."""
    runner = runner_with(probe, None)
    probe.send(runner, {"found": 3})
    assert runner.take_draft_token_ids() is None
    drafts = SimpleNamespace()
    assert probe.reporting(lambda runner: drafts)(runner).paceline_test == {"found": 3}


def test_after_an_error_the_probe_is_off_and_reports_why(
    probe: RunnerProbe[list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    """One log line, an empty state, no further calls, and a report with the reason."""
    drafts = SimpleNamespace()
    runner = runner_with(probe, drafts)

    def fail(runner: Any, state: list[int], number: int) -> int:
        state.append(number)
        raise ZeroDivisionError("planted")

    assert [probe.run(runner, fail, number) for number in (1, 2)] == [None, None]
    assert probe.run(runner, lambda runner, state: 7) is None
    assert probe.state(runner) == []
    assert runner.take_draft_token_ids().paceline_test == {"failed": "planted"}
    assert [record.getMessage() for record in caplog.records] == [
        "Paceline: the test probe failed and is off until the engine restarts"
    ]


def test_a_runner_without_the_wrapper_has_no_probe(probe: RunnerProbe[list[int]]) -> None:
    assert not probe.is_installed(SimpleNamespace())
