"""A load on a chat server that changes every minute or two and stays within the server's slots.

`phases` draws what comes when, and `ChangingLoad` sends it. Every phase is healthy: at most
`MAX_IN_FLIGHT` requests at a time, none longer than the bundled pair's context. Clients that close
their connection early are part of the load; a request that the server fails is not.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.workloads import RequestSpec, SamplingSettings, build_specs, load_workload

MAX_IN_FLIGHT = 8
"""Fewer than the 256 that the gateway admits, and than the engine computes in one step."""
LEFT = "left by its client"
_REQUEST_TIMEOUT_S = 300.0
_MAX_ERRORS = 3
_PAUSE_AFTER_FAILURE_S = 1.0
"""A server that is gone refuses thousands of connections per second."""


@dataclass(frozen=True, slots=True)
class Text:
    """The prompts of a phase: a built-in workload, and a temperature instead of its own."""

    workload: str
    temperature: float


MIXED, MIXED_SAMPLED = Text("mixed", 0.0), Text("mixed", 1.0)
HARD_GREEDY, HARD = Text("hard", 0.0), Text("hard", 1.0)
LONG = Text("rag", 0.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is sent while a phase lasts. Without requests in flight nothing is."""

    name: str
    num_in_flight: int = 0
    texts: tuple[Text, ...] = ()
    """In turn, one for each slot."""
    burst_every_s: float | None = None
    """All requests at once at this interval; None: the next one follows when one has ended."""
    mean_stay_s: float | None = None
    """Clients close their connection after a random time of this mean; None: they stay."""

    def __post_init__(self) -> None:
        if not 0 <= self.num_in_flight <= MAX_IN_FLIGHT:
            raise ValueError(f"{self.name}: {self.num_in_flight} in flight exceed the slots")
        if (self.num_in_flight > 0) != bool(self.texts):
            raise ValueError(f"{self.name}: requests need texts, and texts need requests")


KINDS = (
    Kind("idle"),
    Kind("one stream", 1, (MIXED,)),
    Kind("four streams, mixed", 4, (MIXED, MIXED_SAMPLED)),
    Kind("eight streams, hard", 8, (HARD,)),
    Kind("eight streams, mixed and hard", 8, (MIXED, HARD, MIXED_SAMPLED, HARD_GREEDY)),
    Kind("long prompts", 2, (LONG,)),
    Kind("long prompts among short ones", 4, (MIXED, MIXED, HARD, LONG)),
    Kind("bursts", 8, (MIXED, HARD), burst_every_s=15.0),
    Kind("clients that leave", 4, (MIXED, HARD), mean_stay_s=1.0),
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A kind of load for some time."""

    kind: Kind
    seconds: float


def phases(seed: int, shortest_s: float, longest_s: float) -> Iterator[Phase]:
    """Endless: rounds of all kinds, each round in another order and with other durations.

    >>> first = [phase for phase, _ in zip(phases(1, 60, 120), KINDS)]
    >>> {phase.kind for phase in first} == set(KINDS)
    True
    >>> all(60 <= phase.seconds <= 120 for phase in first)
    True
    """
    draws = random.Random(seed)
    while True:
        for kind in draws.sample(KINDS, len(KINDS)):
            yield Phase(kind, draws.uniform(shortest_s, longest_s))


class ChangingLoad:
    """Sends phases to a server until it is cancelled.

    `current` is the kind now, `sent` one entry for each phase that has ended.
    """

    def __init__(self, url: str, model: str, phases: Iterator[Phase], seed: int) -> None:
        self.current = "not begun"
        self.sent: list[dict[str, Any]] = []
        self._url, self._model, self._phases = URL(url), model, phases
        self._seed, self._draws = seed, random.Random(seed)
        self._requests: dict[Text, Iterator[RequestSpec]] = {}

    async def run(self) -> None:
        """Never returns. A request that the server fails does not raise; `sent` has it."""
        async with aiohttp.ClientSession() as session:
            client = StreamingClient(session, self._url, None, _REQUEST_TIMEOUT_S)
            for phase in self._phases:
                self.current = phase.kind.name
                outcomes: Counter[str] = Counter()
                errors: list[str] = []
                begun_s = time.monotonic()
                try:
                    await self._send_phase(_Sender(client, outcomes, errors), phase)
                finally:
                    seconds = round(time.monotonic() - begun_s, 1)
                    entry = {"kind": phase.kind.name, "seconds": seconds, "outcomes": outcomes}
                    self.sent.append({**entry, **({"errors": errors} if errors else {})})

    async def _send_phase(self, sender: _Sender, phase: Phase) -> None:
        """Requests in flight at the end of the phase are awaited."""
        kind = phase.kind
        if not kind.texts:
            await asyncio.sleep(phase.seconds)
            return
        requests = [self._requests_of(text) for text in kind.texts]
        slots = [requests[slot % len(requests)] for slot in range(kind.num_in_flight)]
        end_s = time.monotonic() + phase.seconds
        while time.monotonic() < end_s:
            next_s = end_s if kind.burst_every_s is None else time.monotonic() + kind.burst_every_s
            async with asyncio.TaskGroup() as group:
                for slot in slots:
                    if kind.burst_every_s is None:
                        group.create_task(self._keep_sending(sender, kind, slot, end_s))
                    else:
                        group.create_task(sender.send(next(slot), None))
            await asyncio.sleep(max(0.0, min(next_s, end_s) - time.monotonic()))

    async def _keep_sending(
        self, sender: _Sender, kind: Kind, slot: Iterator[RequestSpec], end_s: float
    ) -> None:
        while time.monotonic() < end_s:
            mean_s = kind.mean_stay_s
            stay_s = None if mean_s is None else self._draws.expovariate(1 / mean_s)
            await sender.send(next(slot), stay_s)

    def _requests_of(self, text: Text) -> Iterator[RequestSpec]:
        """Endless, and the same in every phase; the prompts are repeated when all were sent."""
        if text not in self._requests:
            prompts = load_workload(text.workload).prompts(self._seed)
            sampling = SamplingSettings(
                self._model, text.temperature, None, None, self._seed, extra_body={}
            )
            self._requests[text] = build_specs(prompts, sampling)
        return self._requests[text]


@dataclass(frozen=True, slots=True)
class _Sender:
    """Sends single requests and notes how each ends."""

    client: StreamingClient
    outcomes: Counter[str]
    errors: list[str]
    """Of the first failures and of the last one."""

    async def send(self, request: RequestSpec, stay_s: float | None) -> None:
        """Send, read for `stay_s` at most, and close the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(stay_s):
                record = await self.client.send(request, 0.0, 0.0)
                self.outcomes[str(record.outcome)] += 1
                if record.error is not None:
                    self.errors[_MAX_ERRORS - 1 :] = [record.error]
                    await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
                return
        self.outcomes[LEFT] += 1


def num_failed(sent: Sequence[dict[str, Any]]) -> int:
    """Requests that the server failed, of all phases.

    >>> num_failed([{"outcomes": {"ok": 5, LEFT: 2}}, {"outcomes": {"ok": 1, "timeout": 3}}])
    3
    """
    return sum(
        number
        for phase in sent
        for outcome, number in phase["outcomes"].items()
        if outcome not in ("ok", LEFT)
    )


def describe_kinds() -> list[dict[str, Any]]:
    """All kinds, for the result."""
    return [asdict(kind) for kind in KINDS]
