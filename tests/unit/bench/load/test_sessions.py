"""Sessions of several turns, bounded loads and stretches, on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator

import pytest

from paceline.foundation.load.driver import LoadRun, Stretch
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, Turn, build_spec

SAMPLING = SamplingSettings("m", 0.0, None, None, 0, {})


class VirtualServer:
    """Every request takes `latency_s` of virtual time; sleeping moves that time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, latency_s: float = 1.0) -> None:
        self.now_s = 50.0
        self.latency_s = latency_s
        self.num_in_flight = 0
        self.max_in_flight = 0
        self.bodies: list[dict[str, object]] = []
        self.fails_at: set[tuple[int, int]] = set()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._yield_once = asyncio.sleep  # sleep: it is called with 0 only
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, delay_s: float) -> None:
        """Wake when virtual time has advanced; it does so when every task is asleep."""
        if delay_s <= 0:
            await self._yield_once(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now_s + delay_s, next(self._order), woken))
        await woken

    async def run(self, work: asyncio.Task[None]) -> None:
        """Move virtual time from sleeper to sleeper until the work is done."""
        for _ in range(10_000):
            for _ in range(20):
                await self._yield_once(0)
            if work.done():
                break
            self._sleepers.sort(key=lambda sleeper: sleeper[:2])
            due_s, _, woken = self._sleepers.pop(0)
            self.now_s = due_s
            if not woken.done():
                woken.set_result(None)
        await work

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        self.num_in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.num_in_flight)
        self.bodies.append(json.loads(spec.body))
        sent_s = self.now_s - zero_s
        await self.sleep(self.latency_s)
        self.num_in_flight -= 1
        has_failed = (spec.index, spec.turn) in self.fails_at
        return RequestRecord(
            index=spec.index,
            task=spec.task,
            scheduled_s=scheduled_s,
            sent_s=sent_s,
            chunk_times_s=(),
            finished_s=self.now_s - zero_s,
            outcome=RequestOutcome.CONNECTION if has_failed else RequestOutcome.OK,
            error="broken" if has_failed else None,
            turn=spec.turn,
            answer=f"answer {spec.turn}" if spec.next_turn else None,
        )


def sessions(count: int, *think_s: float) -> Iterator[RequestSpec]:
    turns = tuple(Turn(f"turn {n}", seconds) for n, seconds in enumerate(think_s, start=1))
    prompt = Prompt("chat", ({"role": "user", "content": "first"},), None, 8, turns=turns)
    return (build_spec(prompt, SAMPLING, index) for index in range(count))


def new_run(server: VirtualServer) -> LoadRun:
    return LoadRun(server, server.clock, lambda record: None)


async def test_a_session_thinks_between_its_turns_and_holds_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request takes 1 s. Turns are due 2 s and 0.5 s after the answers before them."""
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    work = asyncio.create_task(run.closed_loop(Stretch(sessions(2, 2.0, 0.5)), 1))
    await server.run(work)
    assert [(r.index, r.turn, r.scheduled_s) for r in run.records] == [
        (0, 0, 0.0),
        (0, 1, 3.0),
        (0, 2, 4.5),
        (1, 0, 5.5),
        (1, 1, 8.5),
        (1, 2, 10.0),
    ]
    messages = server.bodies[2]["messages"]
    assert isinstance(messages, list)
    assert [m["content"] for m in messages] == ["first", "answer 0", "turn 1", "answer 1", "turn 2"]
    assert all(record.answer is None for record in run.records)


async def test_a_recorded_turn_is_sent_as_recorded_at_its_time_or_when_the_answer_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request takes 1 s. The session is due at 2 s; its turns 5 s and 5.5 s after that."""
    server = VirtualServer(monkeypatch)
    recorded = [
        Prompt("t", ({"role": "tool", "content": f"result {n}"},), None, 8, fields={"tools": [n]})
        for n in (1, 2)
    ]
    turns = tuple(
        Turn("", after_s=after_s, recorded=prompt)
        for after_s, prompt in zip((5.0, 5.5), recorded, strict=True)
    )
    first = Prompt("t", None, "plan", 8, turns=turns)
    run = new_run(server)
    specs = iter([build_spec(first, SAMPLING, 0)])
    await server.run(asyncio.create_task(run.open_loop(Stretch(specs), [2.0])))
    assert [(r.turn, r.scheduled_s) for r in run.records] == [(0, 2.0), (1, 7.0), (2, 8.0)]
    assert [body.get("tools") for body in server.bodies] == [None, [1], [2]]
    assert server.bodies[2]["messages"] == [{"role": "tool", "content": "result 2"}]


async def test_a_failed_turn_ends_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    server = VirtualServer(monkeypatch)
    server.fails_at = {(0, 1)}
    run = new_run(server)
    await server.run(asyncio.create_task(run.closed_loop(Stretch(sessions(2, 1.0, 1.0)), 1)))
    assert [(r.index, r.turn) for r in run.records] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


async def test_the_number_of_requests_bounds_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    stretch = Stretch(sessions(9, 1.0, 1.0), num_requests_left=4)
    await server.run(asyncio.create_task(run.closed_loop(stretch, 1)))
    assert [(r.index, r.turn) for r in run.records] == [(0, 0), (0, 1), (0, 2), (1, 0)]


async def test_no_turn_is_due_after_the_end_of_the_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second turn would be due at 1 + 3 = 4 s, the end."""
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    stretch = Stretch(sessions(1, 3.0), end_s=4.0)
    await server.run(asyncio.create_task(run.closed_loop(stretch, 1)))
    assert [(r.index, r.turn) for r in run.records] == [(0, 0)]


async def test_open_loop_sessions_begin_at_their_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    stretch = Stretch(sessions(2, 2.0), number=3, start_s=10.0)
    await server.run(asyncio.create_task(run.open_loop(stretch, [0.25, 0.5])))
    assert [(r.index, r.turn, r.scheduled_s) for r in run.records] == [
        (0, 0, 10.25),
        (0, 1, 13.25),
        (1, 0, 10.5),
        (1, 1, 13.5),
    ]
    assert {r.phase for r in run.records} == {3}


async def test_bounded_open_loop_waits_and_counts_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three due at 0, one slot, 1 s each: they wait 0, 1 and 2 s, which is no dispatch delay."""
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    work = asyncio.create_task(run.open_loop(Stretch(sessions(3)), [0.0, 0.0, 0.0], 1))
    await server.run(work)
    assert server.max_in_flight == 1
    assert [r.slot_wait_s for r in run.records] == [0.0, 1.0, 2.0]
    assert [r.dispatch_delay_s for r in run.records] == [0.0, 0.0, 0.0]
    assert [r.e2e_s for r in run.records] == [1.0, 2.0, 3.0]


async def test_a_stretch_begins_at_its_start_while_the_one_before_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests take 4 s: that of phase 0 is due at 0 and ends at 4; phase 1 begins at 2."""
    server = VirtualServer(monkeypatch, latency_s=4.0)
    run = new_run(server)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            first = Stretch(sessions(9), number=0, end_s=2.0)
            second = Stretch(sessions(9), number=1, start_s=2.0, end_s=3.0)
            group.create_task(run.closed_loop(first, 1))
            group.create_task(run.closed_loop(second, 2))

    await server.run(asyncio.create_task(both()))
    assert [(r.phase, r.scheduled_s, r.finished_s) for r in run.records] == [
        (0, 0.0, 4.0),
        (1, 2.0, 6.0),
        (1, 2.0, 6.0),
    ]


async def test_cancelling_keeps_what_has_ended_and_counts_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = VirtualServer(monkeypatch)
    run = new_run(server)
    never = asyncio.Event()

    async def hang_after_two(spec: RequestSpec, due_s: float, zero_s: float) -> RequestRecord:
        if spec.index >= 2:
            await never.wait()
        return await VirtualServer.send(server, spec, due_s, zero_s)

    monkeypatch.setattr(server, "send", hang_after_two)
    work = asyncio.create_task(run.closed_loop(Stretch(sessions(9)), 2))
    moving = asyncio.create_task(server.run(work))
    for _ in range(200):
        await server._yield_once(0)
    moving.cancel()
    work.cancel()
    await asyncio.gather(moving, work, return_exceptions=True)
    assert [r.index for r in run.records] == [0, 1]
    assert run.num_unfinished == 2
