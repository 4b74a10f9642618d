"""Clients that send requests all the time, a gateway that takes over, and restarts of replicas."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from chaos.expected_requests import ExpectedRequest, expected_request
from chaos.fleet import FAST_DETECTION, IDLE, Fleet, wait_until
from chaos.gateway_process import HTTP, GatewayProcess, start_gateway
from chaos.transcript import Transcript, send_request

LAME_DUCK_S = 0.5


class Load:
    """Clients that send one request after the other; half of them on kept-alive connections."""

    def __init__(self, url: str, num_clients: int) -> None:
        self._url = url
        self._num_clients = num_clients
        self._numbers = itertools.count()
        self._is_over = False
        self.requests: list[ExpectedRequest] = []
        self.transcripts: list[Transcript] = []

    async def run_client(self, session: aiohttp.ClientSession) -> None:
        while not self._is_over:
            number = next(self._numbers)
            request = expected_request(number, stream=number % 8 != 0)
            transcript = await send_request(
                session, self._url + request.path, request.body, f"rolling-{number}"
            )
            self.requests.append(request)
            self.transcripts.append(transcript)

    async def run(self) -> None:
        """Send until `stop`, and read the answers to their ends."""
        async with (
            aiohttp.ClientSession(connector=connector(closes=True)) as closing,
            aiohttp.ClientSession(connector=connector(closes=False)) as keeping,
        ):
            sessions = [closing, keeping] * (self._num_clients // 2)
            await asyncio.gather(*(self.run_client(session) for session in sessions))

    def stop(self) -> None:
        self._is_over = True


def connector(*, closes: bool) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(limit=0, force_close=closes)


@contextlib.contextmanager
def successor_of(fleet: Fleet, workers: int) -> Iterator[GatewayProcess]:
    """A second gateway with the same settings, which takes over from the one of the fleet."""
    old = fleet.gateway
    folder = old.log.parent / "successor"
    folder.mkdir()
    server = {**FAST_DETECTION["server"], "workers": workers, "lame_duck_s": LAME_DUCK_S}
    replicas = [
        {"url": mock_vllm.url, "name": f"r{index}"}
        for index, mock_vllm in enumerate(fleet.mock_vllms)
    ]
    config = {**FAST_DETECTION, "server": server, "replicas": replicas}
    ports = [url.rpartition(":")[2] for url in (old.url, old.admin_url)]
    with start_gateway(
        folder,
        config,
        *("--replicas", "0", "--take-over"),
        *("--port", ports[0], "--admin-port", ports[1]),
        cwd=Path.cwd(),
    ) as successor:
        yield successor


def restart_replicas(fleet: Fleet) -> None:
    """Drain, wait, restart, ready: one replica at a time, through the admin port."""
    for index, mock_vllm in enumerate(fleet.mock_vllms):
        set_draining(fleet, index, is_draining=True)
        wait_until(lambda index=index: fleet.load(index) == IDLE, 30)
        mock_vllm.terminate()
        mock_vllm.start()
        set_draining(fleet, index, is_draining=False)
        fleet.gateway.wait_ready(len(fleet.mock_vllms), within_s=60)


def set_draining(fleet: Fleet, index: int, *, is_draining: bool) -> None:
    change = {"name": f"r{index}", "draining": is_draining}
    answer = HTTP.patch(f"{fleet.gateway.admin_url}/admin/replicas", json=change)
    assert answer.status_code == 200, answer.text
