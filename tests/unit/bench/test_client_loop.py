"""The loop of the load generator: uvloop, rare garbage collection, and the usual state after it."""

from __future__ import annotations

import asyncio
import gc

import pytest
import uvloop

from paceline.foundation.load.client_loop import client_loop


def test_garbage_collection_is_rare_inside_and_as_before_afterwards() -> None:
    before = gc.get_threshold()

    async def look() -> tuple[type, int, int]:
        return type(asyncio.get_running_loop()), gc.get_threshold()[0], gc.get_freeze_count()

    with client_loop() as runner:
        loop, threshold, frozen = runner.run(look())
    assert loop is uvloop.Loop
    assert threshold > 10 * before[0]
    assert frozen > 10_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_failure_inside_restores_it_too() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="x"), client_loop():
        raise ValueError("x")
    assert gc.get_threshold() == before
