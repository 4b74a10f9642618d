"""SIGTERM to the gateway: what has begun ends, what takes too long is told, nothing is cut."""

from __future__ import annotations

import asyncio
import signal

import pytest

from chaos.expected_requests import ask_all, faults_of, known
from chaos.fleet import running_fleet, until
from chaos.transcript import Ending


@pytest.mark.parametrize("stream", [True, False])
async def test_requests_in_flight_end(stream: bool) -> None:
    with running_fleet(2, "--tpot-ms", "20") as fleet:
        asked = [known(number, stream=stream) for number in range(16)]
        asking = asyncio.create_task(ask_all(fleet, asked, name="drain"))
        await asyncio.to_thread(until, lambda: fleet.served.num_in_flight == len(asked))
        fleet.served.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert not fleet.served.takes_connections(), "new clients are still taken in"
        told = await asking
        assert faults_of(fleet, asked, told) == []
        assert await asyncio.to_thread(fleet.served.process.wait, 10) == 0


async def test_what_outlasts_the_drain_is_told() -> None:
    config = {"server": {"drain_timeout_s": 0.5}}
    with running_fleet(1, "--tpot-ms", "50", "--eos-every-tokens", "0", config=config) as fleet:
        asked = [known(2 * number, max_tokens=200) for number in (0, 1, 3, 4)]
        asked += [known(2 * number, max_tokens=200, stream=False) for number in (0, 1, 3, 4)]
        asking = asyncio.create_task(ask_all(fleet, asked, name="drain-late"))
        await asyncio.to_thread(until, lambda: fleet.served.num_in_flight == len(asked))
        await asyncio.sleep(0.5)  # until streams have begun
        fleet.served.process.send_signal(signal.SIGTERM)
        told = await asking
        assert {answer.ending for answer in told[:4]} == {Ending.ERROR_EVENT}
        assert {answer.ending for answer in told[4:]} == {Ending.REFUSED}
        assert {answer.error["code"] for answer in told if answer.error} == {"server_stopping"}
        assert await asyncio.to_thread(fleet.served.process.wait, 10) == 0
        until(lambda: all(record.ending is not None for record in fleet.records()))
