"""Speculation is switched off and always switched back on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.servers.governor import switch as governor_switch
from paceline.foundation.servers.governor.switch import SwitchUnavailable, switchable_governor
from unit.bench.governor.governed_server import GovernedServer


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as one:
        yield one


async def test_the_policy_is_set_back(
    governed: GovernedServer, session: aiohttp.ClientSession
) -> None:
    async with switchable_governor(session, URL(governed.url), None) as switch:
        await switch.turn_off()
        assert governed.draft_length == 0
        await switch.turn_on()
        assert governed.policy == "goodput"
        await switch.turn_off()
    assert governed.policy == "goodput"
    assert governed.changes[-1] == {"policy": "goodput", "replica": "engine-0"}


async def test_a_fixed_length_is_set_back(
    governed: GovernedServer, session: aiohttp.ClientSession
) -> None:
    governed.policy, governed.draft_length = "fixed", 5
    async with switchable_governor(session, URL(governed.url), None) as switch:
        await switch.turn_off()
    assert (governed.policy, governed.draft_length) == ("fixed", 5)


async def test_cancellation_sets_it_back(
    governed: GovernedServer, session: aiohttp.ClientSession
) -> None:
    async def hold_off() -> None:
        async with switchable_governor(session, URL(governed.url), None) as switch:
            await switch.turn_off()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold_off())
    await governed.off.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert governed.policy == "goodput"


async def test_setting_back_is_tried_again(
    governed: GovernedServer, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor_switch, "_BETWEEN_ATTEMPTS_S", 0.0)
    async with switchable_governor(session, URL(governed.url), None) as switch:
        await switch.turn_off()
        governed.num_refused = 2
    assert governed.policy == "goodput"


async def test_a_server_without_a_governor_is_refused(
    governed: GovernedServer, session: aiohttp.ClientSession
) -> None:
    governed.has_governor = False
    with pytest.raises(SwitchUnavailable, match="the server does not draft"):
        async with switchable_governor(session, URL(governed.url), None):
            pass
    assert governed.changes == []
