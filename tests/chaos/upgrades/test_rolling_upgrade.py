"""Under load, a gateway replaces itself and its replicas restart one by one: no client notices."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from chaos.expected_requests import find_errors
from chaos.fleet import running_fleet, wait_until
from chaos.upgrades.rolling import LAME_DUCK_S, Load, restart_replicas, successor_of

NUM_CLIENTS = 16


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
async def test_no_client_notices_a_rolling_upgrade(workers: int) -> None:
    """First the gateway, then the replicas. Every answer is complete, token by token."""
    config = {"server": {"workers": workers, "lame_duck_s": LAME_DUCK_S}}
    with running_fleet(3, "--tpot-ms", "15", config=config) as fleet:
        old, load = fleet.gateway, Load(fleet.gateway.url, NUM_CLIENTS)
        running = asyncio.create_task(load.run())
        await asyncio.to_thread(wait_until, lambda: len(load.transcripts) > NUM_CLIENTS)
        with contextlib.ExitStack() as stack:
            fleet.gateway = await asyncio.to_thread(
                stack.enter_context, successor_of(fleet, workers)
            )
            assert await asyncio.to_thread(old.process.wait, 60) == 0
            num_before = len(load.transcripts)
            await asyncio.to_thread(restart_replicas, fleet)
            assert len(load.transcripts) > num_before
            load.stop()
            async with asyncio.timeout(60):
                await running
        assert find_errors(fleet, load.requests, load.transcripts) == []
