"""On SIGTERM the gateway finishes running requests, and reports those that take too long."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from chaos.expected_requests import expected_request, find_errors, send_all
from chaos.fleet import MODEL, Fleet, running_fleet, wait_until
from chaos.gateway_process import HTTP
from chaos.transcript import Ending


async def test_requests_in_flight_are_completed() -> None:
    """Streamed and not; all of them take 2 s."""
    with running_fleet(2, "--tpot-ms", "20", "--eos-every-tokens", "0") as fleet:
        requests = [
            expected_request(number, max_tokens=100, stream=stream, eos_every_tokens=0)
            for stream in (True, False)
            for number in range(8)
        ]
        sending = asyncio.create_task(send_all(fleet, requests, name="drain"))
        await asyncio.to_thread(wait_until, lambda: fleet.gateway.num_in_flight == len(requests))
        fleet.gateway.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_until, lambda: not fleet.gateway.accepts_connections())
        assert not sending.done(), "the gateway accepted connections until the last answer ended"
        assert find_errors(fleet, requests, await sending) == []
        assert await asyncio.to_thread(fleet.gateway.process.wait, 60) == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_load_balancers_see_the_end_before_connections_are_refused(workers: int) -> None:
    """Connections stay open or are accepted, answers are complete and say `Connection: close`."""
    config = {"server": {"lame_duck_s": 1.5, "workers": workers}}
    with running_fleet(1, "--tpot-ms", "20", config=config) as fleet:
        body = {"model": MODEL, "prompt": "x", "max_tokens": 4}
        url = f"{fleet.gateway.url}/v1/completions"
        async with httpx.AsyncClient(timeout=60, trust_env=False) as kept_alive:
            before = await kept_alive.post(url, json=body)
            assert "connection" not in before.headers
            fleet.gateway.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(wait_until, lambda: _ready_status(fleet) == 503, 1.0)
            for _ in range(2):  # on the connection of before, then on a new one
                during = await kept_alive.post(url, json=body)
                assert (during.status_code, during.headers["connection"]) == (200, "close")
        requests = [expected_request(number, max_tokens=200) for number in range(4)]
        transcripts = await send_all(fleet, requests, name="lame-duck")
        assert find_errors(fleet, requests, transcripts) == []
        await asyncio.to_thread(wait_until, lambda: not fleet.gateway.accepts_connections())
        assert await asyncio.to_thread(fleet.gateway.process.wait, 60) == 0


def _ready_status(fleet: Fleet) -> int:
    return HTTP.get(f"{fleet.gateway.url}/ready").status_code


async def test_ctrl_c_does_not_wait_for_load_balancers() -> None:
    with running_fleet(1, config={"server": {"lame_duck_s": 60}}) as fleet:
        fleet.gateway.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(fleet.gateway.process.wait, 45) == 0


async def test_requests_that_outlast_the_drain_end_with_an_error() -> None:
    config = {"server": {"drain_timeout_s": 0.5}}
    with running_fleet(1, "--tpot-ms", "50", "--eos-every-tokens", "0", config=config) as fleet:
        requests = [
            expected_request(2 * number, max_tokens=200, stream=stream)
            for stream in (True, False)
            for number in (0, 1, 3, 4)
        ]
        sending = asyncio.create_task(send_all(fleet, requests, name="drain-late"))
        await asyncio.to_thread(
            wait_until, lambda: fleet.num_started("drain-late") == len(requests)
        )
        fleet.gateway.process.send_signal(signal.SIGTERM)
        transcripts = await sending
        assert {transcript.ending for transcript in transcripts[:4]} == {Ending.ERROR_EVENT}
        assert {transcript.ending for transcript in transcripts[4:]} == {Ending.REFUSED}
        codes = {transcript.error["code"] for transcript in transcripts if transcript.error}
        assert codes == {"server_stopping"}
        assert await asyncio.to_thread(fleet.gateway.process.wait, 60) == 0
        wait_until(lambda: all(record.ending is not None for record in fleet.records()))
