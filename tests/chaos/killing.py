"""Streams without a pause while real engines are killed: what becomes of them?

The load, the kills and the verdict, for the test on the real engine and for the long run. What is
greedy is compared with the same request's answer from before, token by token.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp

from chaos.engines import Victim, kill_engine
from chaos.served import Served
from chaos.transcript import Ending, Transcript, ask

DOWN_WITHIN_S = 60.0
READY_WITHIN_S = 400.0
"""A start takes 25 s on two idle cores; seen are four times that on busy ones."""
STREAMS_MEANWHILE = 2
"""While the killed engine starts again; with more, a start takes minutes on two cores."""
_STEP = re.compile(r"request (\S+): replica (\S+): (\w+): (.*); next: (\w+), (\w+)")


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of request that the load asks."""

    name: str
    path: str
    fields: dict[str, Any]
    is_greedy: bool = True
    is_eligible: bool = True
    """Must be completed; what is not may also end with an error that the client can see."""


_GREEDY: dict[str, Any] = {"temperature": 0}
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
KINDS = (
    Kind("chat", CHAT, {**_GREEDY, **_STREAM, "return_token_ids": True}),
    Kind(
        "long completion",
        COMPLETIONS,
        {**_GREEDY, **_STREAM, "return_token_ids": True, "ignore_eos": True},
    ),
    Kind("chat, text only", CHAT, {**_GREEDY, **_STREAM}),
    Kind(
        "chat, seeded", CHAT, {"temperature": 0.8, "seed": 7, **_STREAM}, is_greedy=False,
    ),
    Kind("completion in one piece", COMPLETIONS, {**_GREEDY, "return_token_ids": True}),
    Kind(
        "chat with logprobs", CHAT, {**_GREEDY, **_STREAM, "logprobs": True}, is_eligible=False,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and the greedy answers to it while nothing was killed, by kind."""

    text: str
    answers: dict[str, Transcript] = field(default_factory=dict)


@dataclass
class Kill:
    """One kill and what it struck."""

    victim: Victim
    replica: str
    at_s: float
    pids: list[int]
    num_in_flight: int
    """On that replica, just before."""
    down_after_s: float | None = None
    """Until the gateway gave it no more requests."""
    ready_after_s: float | None = None


@dataclass
class Asked:
    """One request of the load."""

    kind: Kind
    question: Question
    told: Transcript
    steps: list[str] = field(default_factory=list)
    """What the gateway logged of it: how attempts failed and what came next."""

    @property
    def was_struck(self) -> bool:
        return bool(self.steps)

    def first_difference(self) -> int | None:
        """Where a greedy answer leaves the reference: token, or character where ids are unknown."""
        reference = self.question.answers[self.kind.name]
        ours: Sequence[object] = self.told.ids or self.told.text
        theirs: Sequence[object] = reference.ids if self.told.ids else reference.text
        if ours == theirs:
            return None
        pairs = zip(ours, theirs, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def body_of(kind: Kind, model: str, text: str, max_tokens: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": model, "max_tokens": max_tokens, **kind.fields}
    if kind.path == CHAT:
        return {**asked, "messages": [{"role": "user", "content": text}]}
    return {**asked, "prompt": text}


class KillingRun:
    """Asks, kills and judges. `served` has two engines or more."""

    def __init__(
        self, served: Served, model: str, texts: Sequence[str], *, max_tokens: int, seed: int
    ) -> None:
        self._served = served
        self._model = model
        self._max_tokens = max_tokens
        self._random = random.Random(seed)
        self.questions = [Question(text) for text in texts]
        self.asked: list[Asked] = []
        self.kills: list[Kill] = []

    async def run(self, victims: Sequence[Victim], num_streams: int) -> None:
        """The answers without kills, then one kill after the other under load."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            for question in self.questions:
                for kind in KINDS:
                    if kind.is_greedy:
                        told = await self._ask(session, kind, question, "")
                        assert told.ending is Ending.COMPLETED, told
                        question.answers[kind.name] = told
            is_over = asyncio.Event()
            is_full = asyncio.Event()
            workers = [
                asyncio.create_task(self._load(session, worker, is_full, is_over))
                for worker in range(num_streams)
            ]
            try:
                for place, victim in enumerate(victims, 1):
                    is_last = place == len(victims)
                    await self._kill_one(victim, is_full, waits_until_ready=not is_last)
                    assert not any(worker.done() for worker in workers)
            finally:
                is_over.set()
                is_full.set()
                await asyncio.gather(*workers)
        self._note_steps()

    async def _ask(
        self, session: aiohttp.ClientSession, kind: Kind, question: Question, request_id: str
    ) -> Transcript:
        body = body_of(kind, self._model, question.text, self._max_tokens)
        return await ask(session, self._served.url + kind.path, body, request_id)

    async def _load(
        self,
        session: aiohttp.ClientSession,
        worker: int,
        is_full: asyncio.Event,
        is_over: asyncio.Event,
    ) -> None:
        number = 0
        while not is_over.is_set():
            if worker >= STREAMS_MEANWHILE:
                await is_full.wait()
            kind = KINDS[(worker + number) % len(KINDS)]
            question = self.questions[(5 * worker + number) % len(self.questions)]
            told = await self._ask(session, kind, question, f"load-{worker}-{number}")
            self.asked.append(Asked(kind, question, told))
            number += 1

    async def _kill_one(
        self, victim: Victim, is_full: asyncio.Event, *, waits_until_ready: bool
    ) -> None:
        """At a moment drawn at random, the replica that has more requests."""
        is_full.set()
        await asyncio.sleep(self._random.uniform(1, 4))
        states = await asyncio.to_thread(self._served.replicas)
        struck = max(states, key=lambda replica: int(replica["in_flight"]))
        began_s = time.monotonic()
        pids = kill_engine(self._served.pid, struck["name"], victim)
        assert pids, f"no process of {struck['name']} was found"
        kill = Kill(victim, struck["name"], began_s, pids, struck["in_flight"])
        self.kills.append(kill)
        await self._wait_state(kill.replica, is_ready=False, within_s=DOWN_WITHIN_S)
        kill.down_after_s = time.monotonic() - began_s
        is_full.clear()
        if not waits_until_ready:
            return
        await self._wait_state(kill.replica, is_ready=True, within_s=READY_WITHIN_S)
        kill.ready_after_s = time.monotonic() - began_s

    async def _wait_state(self, name: str, *, is_ready: bool, within_s: float) -> None:
        async with asyncio.timeout(within_s):
            while True:
                states = await asyncio.to_thread(self._served.replicas)
                if any((r["state"] == "ready") is is_ready for r in states if r["name"] == name):
                    return
                await asyncio.sleep(0.05)

    def _note_steps(self) -> None:
        by_id = {asked.told.request_id: asked for asked in self.asked}
        for line in self._served.log.read_text(errors="replace").splitlines():
            found = _STEP.search(line)
            if found and found[1] in by_id:
                by_id[found[1]].steps.append(" ".join(found.group(2, 3, 4, 5, 6)))

    def faults(self) -> list[str]:
        """What must never be, in words; empty when all is well. Near-ties are no part of it."""
        faults = []
        for asked in self.asked:
            told, name = asked.told, f"{asked.told.request_id} ({asked.kind.name})"
            ending = told.ending
            if ending is Ending.TRUNCATED:
                faults.append(f"{name}: silent truncation: {told}")
            elif ending is Ending.REFUSED:
                faults.append(f"{name}: lost before its first token: {told.error}; {asked.steps}")
            elif ending is Ending.ERROR_EVENT and asked.kind.is_eligible:
                faults.append(f"{name}: not completed: {told.error}; {asked.steps}")
            elif ending is Ending.ERROR_EVENT and not told.has_first_token:
                faults.append(f"{name}: lost before its first token: {told.error}; {asked.steps}")
            if ending is Ending.COMPLETED:
                faults += [f"{name}: {fault}" for fault in told.faults_of_form()]
        return faults

    async def differences(self) -> list[dict[str, Any]]:
        """Every greedy answer that left its reference, with how close the two tokens were.

        Asks the engines, so call it while they serve.
        """
        found = []
        async with aiohttp.ClientSession() as session:
            for asked in self.asked:
                if not asked.kind.is_greedy or asked.told.ending is not Ending.COMPLETED:
                    continue
                at = asked.first_difference()
                if at is not None:
                    told = {"at": at, "gap_nats": None}
                    if asked.told.ids:
                        told = await self._closeness(session, asked, at)
                    found.append(
                        {
                            "request": asked.told.request_id,
                            "kind": asked.kind.name,
                            "was_struck": asked.was_struck,
                            "num_tokens": len(asked.told.ids),
                            **told,
                        }
                    )
        return found

    async def _closeness(
        self, session: aiohttp.ClientSession, asked: Asked, at: int
    ) -> dict[str, Any]:
        """How far apart an engine finds the two tokens behind what both answers share."""
        reference = asked.question.answers[asked.kind.name]
        theirs, ours = _at(reference.ids, at), _at(asked.told.ids, at)
        body = {
            "model": self._model,
            "prompt": reference.prompt_ids + reference.ids[:at],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 5,
            "return_tokens_as_token_ids": True,
        }
        async with session.post(self._served.url + COMPLETIONS, json=body) as response:
            answer = await response.json()
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        chances = [top.get(f"token_id:{token}") for token in (theirs, ours)]
        gap = None if None in chances else abs(chances[0] - chances[1])
        return {"at": at, "reference": theirs, "told": ours, "logprobs": chances, "gap_nats": gap}

    def summary(self) -> dict[str, Any]:
        endings: dict[str, dict[str, int]] = {}
        for asked in self.asked:
            name = f"{asked.kind.name}{', struck' if asked.was_struck else ''}"
            counts = endings.setdefault(name, {})
            counts[asked.told.ending] = counts.get(asked.told.ending, 0) + 1
        eligible = [a for a in self.asked if a.kind.is_eligible and a.kind.fields.get("stream")]
        struck = [a for a in eligible if a.was_struck]
        return {
            "num_kills": len(self.kills),
            "num_requests": len(self.asked),
            "num_eligible_streams": len(eligible),
            "num_eligible_streams_struck": len(struck),
            "num_eligible_streams_completed": _num_completed(eligible),
            "num_eligible_streams_struck_completed": _num_completed(struck),
            "num_greedy_struck": sum(a.kind.is_greedy for a in struck),
            "num_lost_before_first_token": sum(
                a.told.ending is not Ending.COMPLETED and not a.told.has_first_token
                for a in self.asked
            ),
            "num_silent_truncations": sum(a.told.ending is Ending.TRUNCATED for a in self.asked),
            "endings": endings,
            "steps": dict(Counter(step.split(" ", 1)[1] for a in self.asked for step in a.steps)),
            "longest_silence_of_struck_s": max(
                (a.told.longest_silence_s for a in struck), default=None
            ),
            "kills": [asdict(kill) for kill in self.kills],
        }


def _num_completed(asked: Sequence[Asked]) -> int:
    return sum(a.told.ending is Ending.COMPLETED for a in asked)


def _at(ids: Sequence[int], place: int) -> int | None:
    """None: that answer had ended."""
    return ids[place] if place < len(ids) else None
