"""Under overload the admission rules keep the goodput near its peak, in a simulation.

The peak is known: slots / mean hold. The alternatives are a plain queue, in which requests wait as
long as they may, and adaptive LIFO, which serves the youngest first in a standing queue.
"""

from __future__ import annotations

import pytest

from unit.gateway.admission.queue_simulation import Overload, simulate

TIGHT_S = (4.0, 6.0)
"""Deadlines of 2 to 3 times the mean time that a slot is held."""


@pytest.mark.parametrize("num_slots", [4, 16, 64])
def test_three_times_the_load_keeps_nine_tenths_of_the_peak(num_slots: int) -> None:
    """Refusals come at once: fewer than one request in fifty waits and is then refused."""
    result = simulate(Overload(num_slots, 3.0, TIGHT_S), "forecast")
    assert result.goodput_fraction >= 0.9
    assert result.refused_late_fraction < 0.02


def test_a_plain_queue_collapses_under_the_same_load() -> None:
    """It spends the deadlines on waiting, then the slots on answers that come too late."""
    assert simulate(Overload(16, 3.0, TIGHT_S), "unbounded").goodput_fraction < 0.5


@pytest.mark.parametrize("num_slots", [16, 64])
def test_adaptive_lifo_keeps_no_more_goodput(num_slots: int) -> None:
    """Within 3 %. Adaptive LIFO refuses the requests that it starves only after their deadline."""
    overload = Overload(num_slots, 3.0, TIGHT_S)
    ours, lifo = simulate(overload, "forecast"), simulate(overload, "adaptive_lifo")
    assert ours.goodput_fraction >= lifo.goodput_fraction - 0.03


def test_a_standing_queue_is_cut_to_a_fraction_of_a_hold() -> None:
    """Also without deadlines: the throughput is the same with long waits and with none."""
    overload = Overload(64, 3.0, (100.0, 100.0), hold_sigma=0.5)
    ours, plain = simulate(overload, "forecast"), simulate(overload, "unbounded")
    assert plain.wait_p50_s > 8
    assert ours.wait_p99_s < 1.0
    assert ours.goodput_fraction >= 0.98


@pytest.mark.parametrize("load", [0.8, 0.95])
def test_a_busy_server_refuses_almost_no_request(load: float) -> None:
    result = simulate(Overload(64, load, (20.0, 40.0)), "forecast")
    assert result.goodput_fraction >= 0.97 * load
