"""The watch on the event loop sees every stall of the load generator."""

from __future__ import annotations

import asyncio
import time

import pytest

from paceline.foundation.load.loop_lag import STALL_S, LoopLag, watched_loop


def test_late_wakeups_are_stalls_and_early_ones_are_not() -> None:
    lag = LoopLag(zero_s=100.0)
    lag.record(expected_s=101.0, woke_s=101.002)
    lag.record(expected_s=102.0, woke_s=103.0)
    lag.record(expected_s=104.0, woke_s=103.999)
    assert lag.lags_s.tolist() == pytest.approx([0.002, 1.0, 0.0])
    assert [(s.start_s, s.duration_s) for s in lag.stalls] == [(2.0, 1.0)]


async def test_a_blocked_loop_is_recorded_with_its_time() -> None:
    """The loop is blocked three times, the last time until the end.

    A slow machine may add stalls, and begin these earlier or end them later.
    """
    blocked_until_s = []
    async with watched_loop(time.perf_counter) as lag:
        zero_s = time.perf_counter()
        for _ in range(3):
            await asyncio.sleep(0.05)  # sleep: the loop runs between two stalls, however long
            # sleep: the loop is blocked for this time at least
            time.sleep(STALL_S + 0.1)  # noqa: ASYNC251
            blocked_until_s.append(time.perf_counter() - zero_s)
    assert all(stall.duration_s >= STALL_S for stall in lag.stalls)
    for end_s in blocked_until_s:
        assert any(s.start_s < end_s <= s.start_s + s.duration_s + 0.1 for s in lag.stalls)
    assert lag.wall_s >= 0.7
