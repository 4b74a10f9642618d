"""A trial on a mock server whose speed is known, in virtual time."""

from __future__ import annotations

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation
from paceline.workbench.tune.live.block import LiveServer
from paceline.workbench.tune.live.governor import GovernorControl
from paceline.workbench.tune.values import Cell, LiveSetting, Purpose, RestartConfig, Trial
from unit.bench.trace.virtual_time import clocks_of_the_event_loop, now_s
from unit.tune.live.test_block import load

__all__ = ["clocks_of_the_event_loop"]


def trial(draft_length: int | None, max_in_flight: int, sequence: int = 0) -> Trial:
    cell = Cell(RestartConfig(()), LiveSetting(draft_length, max_in_flight))
    return Trial(cell, Purpose.SEARCH, sequence)


async def test_a_trial_holds_its_draft_length_and_none_returns_to_the_policy() -> None:
    settings = MockVllmSettings(tpot_ms=5, speculation=Speculation(2, (0.9, 0.5)))
    async with MockVllm(settings) as mock, aiohttp.ClientSession() as session:
        client = StreamingClient(session, URL(mock.url), None, 30, now_s)
        governor = GovernorControl(session, URL(mock.url))
        server = LiveServer(client, load(), settings.model, governor, "salt", now_s)
        await server.warm_up([trial(0, 1).cell.live, trial(0, 3).cell.live])
        lengths = []
        for length in (0, 1, None):
            measured = await server.run(trial(length, 3))
            state = await (await session.get(f"{mock.url}/admin/governor")).json()
            lengths.append(state["replicas"]["mock"]["draft_length"])
            assert measured.num_errors == 0
            assert measured.good_requests_per_s == pytest.approx(measured.requests_per_s)
            assert measured.requests_per_s > 0
        assert lengths == [0, 1, 2]
