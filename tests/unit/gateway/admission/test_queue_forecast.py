"""The forecast wait follows the measured rate, and decides which requests may wait."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.admission import RefusalReason
from paceline.runtime.gateway.admission.queue_forecast import QueueForecast
from paceline.runtime.gateway.settings import AdmissionSettings

SETTINGS = AdmissionSettings(max_queue=100, max_queue_wait_s=10)


def judge(
    forecast: QueueForecast, position: int, num_slots: int, time_left_s: float, now_s: float
) -> RefusalReason | None:
    """The verdict on a request after others of one sequence each."""
    return forecast.judge(position, num_slots, time_left_s, now_s, num_ahead=position - 1)


def seen(hold_s: float, num: int = 64) -> QueueForecast:
    """A forecast after a quiet time in which each slot was held for `hold_s`."""
    forecast = QueueForecast(SETTINGS)
    for _ in range(num):
        forecast.slots_ended(hold_s, 0.0)
    return forecast


def test_before_any_slot_has_ended_only_the_queue_length_is_bounded() -> None:
    forecast = QueueForecast(SETTINGS)
    assert forecast.wait_s(1, 4, 0.0) is None
    assert judge(forecast, 100, 4, 0.001, 0.0) is None
    assert judge(forecast, 101, 4, 3600.0, 0.0) is RefusalReason.QUEUE_FULL


def test_after_a_quiet_time_the_hold_time_gives_the_rate() -> None:
    """4 slots of 2 s are 2 per second, however few requests came."""
    forecast = seen(hold_s=2.0)
    assert forecast.wait_s(6, 4, 1000.0) == pytest.approx(3.0)
    assert judge(forecast, 20, 4, 3600.0, 1000.0) is None
    assert judge(forecast, 21, 4, 3600.0, 1000.0) is RefusalReason.WAIT_TOO_LONG


def test_a_deadline_must_hold_the_wait_and_the_answer() -> None:
    forecast = seen(hold_s=2.0)
    assert judge(forecast, 6, 4, 5.1, 1000.0) is None
    assert judge(forecast, 6, 4, 4.9, 1000.0) is RefusalReason.DEADLINE
    assert forecast.longest_wait_s(5.0) == pytest.approx(3.0)
    assert forecast.longest_wait_s(3600.0) == 10.0


def test_under_load_the_measured_rate_takes_over() -> None:
    """Known truth: slots that were held 2 s in quiet times are held 4 s under load."""
    forecast = seen(hold_s=2.0)
    forecast.queue_changed(5, 4, 1000.0)
    for second in range(1001, 1041):
        forecast.slots_ended(4.0, float(second))
    wait_s = forecast.wait_s(8, 4, 1040.0)
    assert wait_s == pytest.approx(8.0, rel=0.1)


def test_engines_that_stop_ending_requests_lengthen_the_forecast() -> None:
    forecast = seen(hold_s=2.0)
    forecast.queue_changed(1, 4, 1000.0)
    before_s, after_s = forecast.wait_s(4, 4, 1000.0), forecast.wait_s(4, 4, 1020.0)
    assert before_s == pytest.approx(2.0)
    assert after_s == pytest.approx(22.0)


def test_half_the_slots_halve_the_rate_at_once() -> None:
    forecast = seen(hold_s=2.0)
    assert forecast.wait_s(4, 4, 0.0) == pytest.approx(2.0)
    assert forecast.wait_s(4, 2, 0.0) == pytest.approx(4.0)
    assert judge(forecast, 1, 0, 3600.0, 0.0) is RefusalReason.NO_REPLICA


def test_a_standing_queue_shortens_the_wait_and_a_cleared_one_restores_it() -> None:
    """8 slots of 2 s, four ended per second: a quarter of a hold is two positions."""
    forecast, now_s = seen(hold_s=2.0), 1000.0
    forecast.queue_changed(4, 8, now_s)
    for _ in range(40):
        assert judge(forecast, 4, 8, 3600.0, now_s) is None
        now_s += 0.25
        forecast.slots_ended(2.0, now_s)
    assert judge(forecast, 4, 8, 3600.0, now_s) is RefusalReason.WAIT_TOO_LONG
    assert judge(forecast, 2, 8, 3600.0, now_s) is None
    forecast.queue_changed(0, 8, now_s)
    assert judge(forecast, 4, 8, 3600.0, now_s + 5) is None


def test_the_first_position_is_given_even_in_a_standing_queue() -> None:
    forecast = seen(hold_s=2.0)
    forecast.queue_changed(1, 1, 1000.0)
    for second in range(1002, 1032, 2):
        forecast.slots_ended(2.0, float(second))
    assert judge(forecast, 1, 1, 3600.0, 1031.0) is None
    assert judge(forecast, 2, 1, 3600.0, 1031.0) is RefusalReason.WAIT_TOO_LONG


def test_later_refusals_get_a_longer_retry_after() -> None:
    """4 slots of 2 s are 2 per second; three wait already."""
    forecast = seen(hold_s=2.0)
    retry_after_s = [forecast.refuse(3, 4, 1000.0) for _ in range(400)]
    assert retry_after_s[0] == 2
    assert retry_after_s[100] == 52
    assert retry_after_s[-1] == 120
    assert forecast.refuse(3, 4, 1031.0) == 2, "refusals of half a minute ago no longer count"


def test_retry_after_is_at_least_a_second() -> None:
    assert QueueForecast(SETTINGS).refuse(0, 4, 0.0) == 1
    assert seen(hold_s=0.001).refuse(0, 4, 0.0) == 1


def test_large_requests_free_and_need_many_slots() -> None:
    """16 slots of 2 s are 8 per second, also when each request holds eight of them."""
    forecast = QueueForecast(SETTINGS)
    for _ in range(8):
        forecast.slots_ended(2.0, 0.0, num_slots=8)
    forecast.queue_changed(3, 16, 1000.0)
    for second in range(1001, 1041):
        forecast.slots_ended(2.0, float(second), num_slots=8)
    assert forecast.wait_s(24, 16, 1040.0) == pytest.approx(3.0, rel=0.1)


def test_the_queue_length_counts_requests_and_not_their_sequences() -> None:
    forecast = QueueForecast(SETTINGS)
    assert forecast.judge(800, 4, 3600.0, 0.0, num_ahead=99) is None
    assert forecast.judge(1, 4, 3600.0, 0.0, num_ahead=100) is RefusalReason.QUEUE_FULL
    full = forecast.judge(1, 4, 3600.0, 0.0, num_ahead=0, num_waiting_elsewhere=100)
    assert full is RefusalReason.QUEUE_FULL


def test_the_hold_time_is_the_mean_of_the_first_releases() -> None:
    forecast = QueueForecast(SETTINGS)
    for held_s in (1.0, 3.0, 5.0):
        forecast.slots_ended(held_s, 0.0)
    assert forecast.wait_s(1, 1, 0.0) == pytest.approx(3.0)


def test_a_release_has_a_weight_of_one_in_64_later() -> None:
    forecast = seen(hold_s=2.0, num=100)
    forecast.slots_ended(66.0, 0.0)
    assert forecast.wait_s(1, 1, 0.0) == pytest.approx(3.0)


def test_a_request_with_very_many_slots_replaces_the_mean() -> None:
    forecast = seen(hold_s=2.0, num=1)
    forecast.slots_ended(4.0, 0.0, num_slots=128)
    assert forecast.wait_s(1, 1, 0.0) == pytest.approx(4.0)


def test_before_any_slot_has_ended_a_request_may_wait_until_its_deadline() -> None:
    forecast = QueueForecast(SETTINGS)
    assert [forecast.longest_wait_s(left_s) for left_s in (5.0, 3600.0)] == [5.0, 10.0]


def test_without_slots_no_wait_is_known() -> None:
    assert seen(hold_s=2.0).wait_s(1, 0, 0.0) is None


def test_an_answer_may_end_at_the_very_moment_of_its_deadline() -> None:
    """6 positions at 2 per second are 3 s, and the answer takes 2 s."""
    assert judge(seen(hold_s=2.0), 6, 4, 5.0, 1000.0) is None


def test_holds_of_no_time_free_slots_at_once() -> None:
    assert seen(hold_s=0.0).wait_s(9, 4, 0.0) == 0.0


def test_refusals_of_the_last_half_minute_count() -> None:
    """A hundred refused, three waiting and this one, at 2 per second: 52 s."""
    forecast = seen(hold_s=2.0)
    for _ in range(100):
        forecast.refuse(3, 4, 1000.0)
    assert forecast.refuse(3, 4, 1026.0) == 52
    assert forecast.refuse(3, 4, 1031.0) == 3, "two refusals are left"


def test_slot_seconds_count_while_requests_wait_only() -> None:
    """4 slots, of 2 s each when idle: (5 · 4 + 4 · 2) s for (8 + 4) releases, then quiet again."""
    forecast = seen(hold_s=2.0)
    forecast.queue_changed(1, 4, 1000.0)
    forecast.slots_ended(2.0, 1001.0, num_slots=8)
    forecast.queue_changed(0, 4, 1005.0)
    forecast.slots_ended(2.0, 1010.0)
    assert forecast.wait_s(12, 4, 1015.0) == pytest.approx(12 * (20 + 8) / (4 * (8 + 4)))
