"""What the queue's rules are worth under overload, by simulation with known truth.

The peak is known: slots / mean hold. The alternatives are a plain queue, in which requests wait as
long as they may, and adaptive LIFO, which serves the youngest first once the queue stands.
"""

from __future__ import annotations

import pytest

from unit.gateway.admission.queue_simulation import Overload, simulate

TIGHT_S = (4.0, 6.0)
"""Deadlines of 2 to 3 times the mean time that a slot is held."""


@pytest.mark.parametrize("num_slots", [4, 16, 64])
def test_three_times_the_load_keeps_nine_tenths_of_the_peak(num_slots: int) -> None:
    """And refuses at once: less than one in fifty waits in vain."""
    result = simulate(Overload(num_slots, 3.0, TIGHT_S), "forecast")
    assert result.goodput_fraction >= 0.9
    assert result.refused_late_fraction < 0.02


def test_a_plain_queue_collapses_where_ours_does_not() -> None:
    """It spends the deadlines on waiting, then the slots on answers that come too late."""
    assert simulate(Overload(16, 3.0, TIGHT_S), "unbounded").goodput_fraction < 0.5


@pytest.mark.parametrize("num_slots", [16, 64])
def test_adaptive_lifo_would_be_no_better(num_slots: int) -> None:
    """Within 3 %. It tells those that it starves only when their time is over."""
    overload = Overload(num_slots, 3.0, TIGHT_S)
    ours, lifo = simulate(overload, "forecast"), simulate(overload, "adaptive_lifo")
    assert ours.goodput_fraction >= lifo.goodput_fraction - 0.03


def test_a_mock_vllmg_queue_is_cut_to_a_fraction_of_a_hold() -> None:
    """Without deadlines, too: the throughput is the same with waits of seconds or of none."""
    overload = Overload(64, 3.0, (100.0, 100.0), hold_sigma=0.5)
    ours, plain = simulate(overload, "forecast"), simulate(overload, "unbounded")
    assert plain.wait_p50_s > 8
    assert ours.wait_p99_s < 1.0
    assert ours.goodput_fraction >= 0.98


@pytest.mark.parametrize("load", [0.8, 0.95])
def test_a_busy_server_refuses_next_to_nobody(load: float) -> None:
    result = simulate(Overload(64, load, (20.0, 40.0)), "forecast")
    assert result.goodput_fraction >= 0.97 * load
