"""`FaultRun`: real engines fail under continuous load, and every answer is checked.

Used by the test on real engines and by the long run. Greedy answers are compared, token by token,
with the answers to the same requests before the first fault.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp

from chaos.attempt_log import read_failed_attempts
from chaos.gateway_process import GatewayProcess
from chaos.real_engines.engine_faults import EngineFault, inject, wait_all_ready
from chaos.real_engines.request_kinds import RequestKind, body_of
from chaos.real_engines.run_report import LoadRequest, Prompt
from chaos.slow_clients.slow_reader import SlowReader
from chaos.transcript import Ending, Transcript, send_request

_UNDER_LOAD_S = (2.0, 6.0)
"""How long all streams run before the next fault."""
_LAST_STREAMS_S = 300.0
"""The streams that run when the faults are over must end within this time."""
_BYTES_PER_READ = 65536


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The requests of a load."""

    model: str
    kinds: Sequence[RequestKind]
    num_streams: int
    """Open at the same time when an engine fails."""
    max_tokens: int
    slow_max_tokens: int = 0
    """Of the streams that are read slowly."""
    slow_pause_s: tuple[float, float] = (0.0, 0.0)
    """A slow client reads nothing for a time drawn from this range, and then everything."""
    num_streams_during_restart: int = 2
    """With more of them, the start of an engine takes minutes on two cores."""


class FaultRun:
    """Sends requests and makes engines fail. `gateway` must have two engines or more."""

    def __init__(
        self,
        gateway: GatewayProcess,
        load: EngineLoad,
        texts: Sequence[str],
        *,
        first_round: int = 0,
    ) -> None:
        """`texts` are the prompts; the answers to them are compared.

        Each call of `run` is a round, with other requests and pauses than the rounds before it.
        """
        self._gateway = gateway
        self._load = load
        self._random = random.Random(first_round)
        self._round = first_round
        self.prompts = [Prompt(text) for text in texts]

    async def run(
        self,
        faults: Sequence[EngineFault],
        on_fault: Callable[[EngineFault], None] = lambda fault: None,
    ) -> list[LoadRequest]:
        """Inject one fault after another under load; returns all requests, once they have ended.

        `on_fault` is called after each fault, when the engine serves again.
        """

        async def inject_all(has_full_load: asyncio.Event) -> None:
            for fault in faults:
                has_full_load.set()
                # sleep: faults strike at random moments
                await asyncio.sleep(self._random.uniform(*_UNDER_LOAD_S))
                start_s = time.monotonic()
                await inject(self._gateway, fault)
                has_full_load.clear()
                await wait_all_ready(self._gateway)
                fault.ready_after_s = time.monotonic() - start_s
                on_fault(fault)

        return await self.run_during(inject_all)

    async def run_during(
        self, work: Callable[[asyncio.Event], Awaitable[None]]
    ) -> list[LoadRequest]:
        """Send requests until `work` has ended; returns them, once they have ended too.

        `work` gets the event that is set while all streams run, and not only
        `num_streams_during_restart` of them. The references are recorded before.
        """
        await self.record_references()
        requests: list[LoadRequest] = []
        async with self._session() as session:
            is_over, has_full_load = asyncio.Event(), asyncio.Event()
            streams = [
                asyncio.create_task(
                    self._run_stream(session, stream, requests, has_full_load, is_over)
                )
                for stream in range(self._load.num_streams)
            ]
            working: asyncio.Future[None] = asyncio.ensure_future(work(has_full_load))
            try:
                # A stream that ends before the work has failed.
                await asyncio.wait([working, *streams], return_when=asyncio.FIRST_COMPLETED)
                for ended in (*streams, working):
                    if ended.done():
                        await ended
                await working
                is_over.set()
                has_full_load.set()
                async with asyncio.timeout(_LAST_STREAMS_S):
                    await asyncio.gather(*streams)
            finally:  # also when this is cancelled, or a fault was not noticed
                tasks = [*streams, working]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self._round += 1
        attempts = read_failed_attempts(self._gateway.log)
        for request in requests:
            request.failed_attempts = attempts.get(request.transcript.request_id, ())
        return requests

    async def record_references(self) -> None:
        """Record the greedy answers to all prompts, one at a time, unless they are known."""
        await wait_all_ready(self._gateway)
        async with self._session() as session:
            for prompt in self.prompts:
                for kind in self._load.kinds:
                    if kind.has_own_reference and kind.name not in prompt.references:
                        transcript = await self._send(session, kind, prompt, "")
                        assert transcript.ending is Ending.COMPLETED, transcript
                        prompt.references[kind.name] = transcript

    @staticmethod
    def _session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_read=_LAST_STREAMS_S),
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
        )

    async def _run_stream(
        self,
        session: aiohttp.ClientSession,
        stream: int,
        requests: list[LoadRequest],
        has_full_load: asyncio.Event,
        is_over: asyncio.Event,
    ) -> None:
        """Send one request after another; most streams pause while an engine restarts."""
        drawn = random.Random(f"{self._round}-{stream}")
        number = 0
        while not is_over.is_set():
            if stream >= self._load.num_streams_during_restart:
                await has_full_load.wait()
                if is_over.is_set():
                    return
            kind = self._load.kinds[(self._round + stream + number) % len(self._load.kinds)]
            prompt = self.prompts[(5 * stream + number) % len(self.prompts)]
            request_id = f"load-{self._round}-{stream}-{number}"
            if kind.is_slow:
                transcript = await self._send_slowly(kind, prompt, request_id, drawn)
            else:
                transcript = await self._send(session, kind, prompt, request_id)
            requests.append(LoadRequest(kind, prompt, self._max_tokens(kind), transcript))
            number += 1

    async def _send(
        self, session: aiohttp.ClientSession, kind: RequestKind, prompt: Prompt, request_id: str
    ) -> Transcript:
        body = body_of(kind, self._load.model, prompt.text, self._max_tokens(kind))
        return await send_request(session, self._gateway.url + kind.path, body, request_id)

    async def _send_slowly(
        self, kind: RequestKind, prompt: Prompt, request_id: str, drawn: random.Random
    ) -> Transcript:
        body = body_of(kind, self._load.model, prompt.text, self._max_tokens(kind))
        reader = SlowReader(self._gateway.url, kind.path, body, request_id)
        await reader.send()
        # sleep: a client that is slow by design; its answer is the same
        await asyncio.sleep(drawn.uniform(*self._load.slow_pause_s))
        return await reader.read(_BYTES_PER_READ)

    def _max_tokens(self, kind: RequestKind) -> int:
        return self._load.slow_max_tokens if kind.is_slow else self._load.max_tokens
