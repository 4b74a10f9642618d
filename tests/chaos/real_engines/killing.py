"""Kill real engines under continuous load, and check what became of every request.

Used by the test on real engines and by the long run. Greedy answers are compared, token by token,
with the answers to the same requests before the first kill.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from chaos.attempt_log import read_failed_attempts
from chaos.engines import Victim, kill_engine
from chaos.gateway_process import GatewayProcess
from chaos.real_engines.kill_report import Kill, LoadRequest, Prompt, find_errors, summarize
from chaos.real_engines.request_kinds import COMPLETIONS, KINDS, RequestKind, body_of
from chaos.transcript import Ending, Transcript, send_request

DOWN_WITHIN_S = 60.0
READY_WITHIN_S = 400.0
"""A start takes 25 s on two idle cores; four times that was observed on busy ones."""
STREAMS_DURING_RESTART = 2
"""Streams while the killed engine restarts: with more, a start takes minutes on two cores."""


class KillingRun:
    """Sends requests, kills engines and checks the answers. `gateway` must have two engines."""

    def __init__(
        self,
        gateway: GatewayProcess,
        model: str,
        texts: Sequence[str],
        *,
        max_tokens: int,
        seed: int,
    ) -> None:
        self._gateway = gateway
        self._model = model
        self._max_tokens = max_tokens
        self._random = random.Random(seed)
        self.prompts = [Prompt(text) for text in texts]
        self.requests: list[LoadRequest] = []
        self.kills: list[Kill] = []

    async def run(self, victims: Sequence[Victim], num_streams: int) -> None:
        """Record the reference answers, then kill one victim after another under load."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            for prompt in self.prompts:
                for kind in KINDS:
                    if kind.is_greedy:
                        transcript = await self._send(session, kind, prompt, "")
                        assert transcript.ending is Ending.COMPLETED, transcript
                        prompt.references[kind.name] = transcript
            is_over = asyncio.Event()
            has_full_load = asyncio.Event()
            streams = [
                asyncio.create_task(self._run_stream(session, stream, has_full_load, is_over))
                for stream in range(num_streams)
            ]
            try:
                for number, victim in enumerate(victims, 1):
                    is_last = number == len(victims)
                    await self._kill_one(victim, has_full_load, waits_until_ready=not is_last)
                    assert not any(stream.done() for stream in streams)
            finally:
                is_over.set()
                has_full_load.set()
                await asyncio.gather(*streams)
        self._read_failed_attempts()

    async def _send(
        self, session: aiohttp.ClientSession, kind: RequestKind, prompt: Prompt, request_id: str
    ) -> Transcript:
        body = body_of(kind, self._model, prompt.text, self._max_tokens)
        return await send_request(session, self._gateway.url + kind.path, body, request_id)

    async def _run_stream(
        self,
        session: aiohttp.ClientSession,
        stream: int,
        has_full_load: asyncio.Event,
        is_over: asyncio.Event,
    ) -> None:
        """Send one request after another; most streams pause while an engine restarts."""
        number = 0
        while not is_over.is_set():
            if stream >= STREAMS_DURING_RESTART:
                await has_full_load.wait()
            kind = KINDS[(stream + number) % len(KINDS)]
            prompt = self.prompts[(5 * stream + number) % len(self.prompts)]
            transcript = await self._send(session, kind, prompt, f"load-{stream}-{number}")
            self.requests.append(LoadRequest(kind, prompt, transcript))
            number += 1

    async def _kill_one(
        self, victim: Victim, has_full_load: asyncio.Event, *, waits_until_ready: bool
    ) -> None:
        """Kill, at a random moment, the replica with the most requests in flight."""
        has_full_load.set()
        await asyncio.sleep(self._random.uniform(1, 4))
        states = await asyncio.to_thread(self._gateway.replicas)
        busiest = max(states, key=lambda replica: int(replica["in_flight"]))
        start_s = time.monotonic()
        pids = kill_engine(self._gateway.pid, busiest["name"], victim)
        assert pids, f"no process of {busiest['name']} was found"
        kill = Kill(victim, busiest["name"], start_s, pids, busiest["in_flight"])
        self.kills.append(kill)
        await self._wait_state(kill.replica, is_ready=False, within_s=DOWN_WITHIN_S)
        kill.down_after_s = time.monotonic() - start_s
        has_full_load.clear()
        if not waits_until_ready:
            return
        await self._wait_state(kill.replica, is_ready=True, within_s=READY_WITHIN_S)
        kill.ready_after_s = time.monotonic() - start_s

    async def _wait_state(self, name: str, *, is_ready: bool, within_s: float) -> None:
        async with asyncio.timeout(within_s):
            while True:
                states = await asyncio.to_thread(self._gateway.replicas)
                if any((r["state"] == "ready") is is_ready for r in states if r["name"] == name):
                    return
                await asyncio.sleep(0.05)

    def _read_failed_attempts(self) -> None:
        """Assign the failed attempts in the gateway's log to their requests."""
        attempts = read_failed_attempts(self._gateway.log)
        for request in self.requests:
            request.failed_attempts = [
                " ".join((one.replica, one.outcome, one.detail, one.step, one.reason))
                for one in attempts.get(request.transcript.request_id, ())
            ]

    def errors(self) -> list[str]:
        """List everything that must never happen. Changed tokens are in `differences`."""
        return find_errors(self.requests)

    def summary(self) -> dict[str, Any]:
        return summarize(self.requests, self.kills)

    async def differences(self) -> list[dict[str, Any]]:
        """Describe every greedy answer that differs from its reference.

        Where token ids are known, an engine reports how close the two tokens were, so call this
        while the engines serve.
        """
        found = []
        async with aiohttp.ClientSession() as session:
            for request in self.requests:
                transcript = request.transcript
                if not request.kind.is_greedy or transcript.ending is not Ending.COMPLETED:
                    continue
                index = request.first_difference()
                if index is not None:
                    difference = {"at": index, "gap_nats": None}
                    if transcript.ids:
                        difference = await self._compare_tokens(session, request, index)
                    found.append(
                        {
                            "request": transcript.request_id,
                            "kind": request.kind.name,
                            "was_struck": request.was_interrupted,
                            "num_tokens": len(transcript.ids),
                            **difference,
                        }
                    )
        return found

    async def _compare_tokens(
        self, session: aiohttp.ClientSession, request: LoadRequest, index: int
    ) -> dict[str, Any]:
        """Get the log probabilities of the two tokens after the common part of both answers."""
        reference = request.prompt.references[request.kind.name]
        tokens = _get(reference.ids, index), _get(request.transcript.ids, index)
        body = {
            "model": self._model,
            "prompt": reference.prompt_ids + reference.ids[:index],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 5,
            "return_tokens_as_token_ids": True,
        }
        async with session.post(self._gateway.url + COMPLETIONS, json=body) as response:
            answer = await response.json()
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        logprobs = [top.get(f"token_id:{token}") for token in tokens]
        gap = None if None in logprobs else abs(logprobs[0] - logprobs[1])
        return {
            "at": index,
            "reference": tokens[0],
            "told": tokens[1],
            "logprobs": logprobs,
            "gap_nats": gap,
        }


def _get(ids: Sequence[int], index: int) -> int | None:
    """Return the token at the index, or None if the answer ended before."""
    return ids[index] if index < len(ids) else None
