"""The delays between restarts."""

from __future__ import annotations

from paceline.runtime.engine.process.backoff import Backoff


def test_delays_double_up_to_a_minute_and_restarts_never_end() -> None:
    backoff, delays = Backoff(), []
    for _ in range(9):
        backoff = backoff.after(ready_for_s=None)
        delays.append(backoff.delay_s)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_lower_longest_delay_holds_after_every_run() -> None:
    backoff, delays = Backoff(max_delay_s=2.0), []
    for ready_for_s in (None, None, None, None, 60.0, 1.0):
        backoff = backoff.after(ready_for_s)
        delays.append(backoff.delay_s)
    assert delays == [0.5, 1, 2, 2, 0.5, 1]


def test_a_stable_run_resets_the_failure_count() -> None:
    backoff = Backoff(num_failures=7)
    assert backoff.after(ready_for_s=59.0).num_failures == 8
    assert backoff.after(ready_for_s=60.0).num_failures == 1


def test_a_loop_is_reported_from_the_fifth_failure_in_a_row() -> None:
    assert not Backoff(4).is_looping
    assert Backoff(5).is_looping


def test_a_restart_that_was_asked_for_is_no_failure() -> None:
    assert Backoff().after_planned_restart(ready_for_s=1.0).delay_s == 0
    assert Backoff(num_failures=3).after_planned_restart(ready_for_s=59.0).num_failures == 3
    assert Backoff(num_failures=3).after_planned_restart(ready_for_s=60.0).num_failures == 0
    assert Backoff(3, max_delay_s=2.0).after_planned_restart(60.0).max_delay_s == 2.0
