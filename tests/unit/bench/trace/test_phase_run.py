"""The load of each phase, in virtual time with a sender whose answers take known times."""

from __future__ import annotations

import asyncio

import pytest

from paceline.foundation.load.config import BenchError
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.shifting_trace import TracePhase
from paceline.foundation.workloads import RequestSpec
from paceline.workbench.bench.trace.phase_run import PhaseLog, PhaseRun
from unit.bench.trace.virtual_time import now_s, run_virtually


class Sender:
    """Answers of ten tokens in one second; remembers how many are in flight, and since when."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.in_flight = 0
        self.changes: list[tuple[float, int]] = []

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        sent_s = now_s() - zero_s
        self._change(+1, sent_s)
        await asyncio.sleep(1.0)
        finished_s = now_s() - zero_s
        self._change(-1, finished_s)
        return RequestRecord(
            index=spec.index,
            task=spec.task,
            scheduled_s=scheduled_s,
            sent_s=sent_s,
            chunk_times_s=() if self.fails else (finished_s,),
            finished_s=finished_s,
            outcome=RequestOutcome.CONNECTION if self.fails else RequestOutcome.OK,
            output_tokens=None if self.fails else 10,
            error="refused" if self.fails else None,
        )

    def _change(self, by: int, at_s: float) -> None:
        self.in_flight += by
        self.changes.append((at_s, self.in_flight))

    def most_between(self, start_s: float, end_s: float) -> int:
        return max(count for at_s, count in self.changes if start_s <= at_s < end_s)


class Source:
    """Names each request by its phase."""

    def __init__(self) -> None:
        self.count = 0

    def next_request(self, phase_number: int) -> RequestSpec:
        self.count += 1
        return RequestSpec(self.count, f"phase {phase_number}", "/v1/completions", b"")


def run(*phases: TracePhase, sender: Sender | None = None) -> tuple[Sender, PhaseLog, list[str]]:
    sender = sender or Sender()
    log, seen = PhaseLog(), []

    async def scenario() -> None:
        async def read_counters() -> None:
            await asyncio.sleep(0.3)

        phase_run = PhaseRun(sender, Source(), now_s, log, zero_s=now_s(), seed=0)
        await phase_run.run(
            list(enumerate(phases)), read_counters, lambda phase: seen.append(phase.name)
        )

    run_virtually(scenario())
    return sender, log, seen


def closed(name: str, concurrency: int, **end: float) -> TracePhase:
    return TracePhase(name, (("easy", 1.0),), concurrency=concurrency, **end)  # type: ignore[arg-type]


def test_a_phase_keeps_its_requests_in_flight_and_lasts_as_long_as_it_says() -> None:
    sender, log, seen = run(closed("a", 2, duration_s=3.5), closed("b", 5, duration_s=2.0))
    assert seen == ["a", "b"]
    assert log.starts_s == pytest.approx([0.0, 3.5], abs=1e-6)
    assert log.ends_s == pytest.approx([3.5, 5.5])
    assert sender.most_between(0.0, 3.4) == 2
    assert sender.most_between(3.4, 5.5) == 5
    assert sorted(log.readings) == [(0, False), (0, True), (1, False), (1, True)]
    assert log.num_unfinished == 0


def test_requests_of_the_phase_before_count_against_the_load_of_the_next() -> None:
    """At 3.5 s five are in flight and 2 are allowed: the next is sent when they end, at 4 s."""
    sender, log, _ = run(closed("a", 5, duration_s=3.5), closed("b", 2, duration_s=2.0))
    sent_in_b = [record for record in log.records if record.phase == 1]
    assert min(record.sent_s for record in sent_in_b) == pytest.approx(4.0)
    assert sender.most_between(4.001, 6.0) == 2


def test_records_belong_to_the_phase_in_which_they_were_sent() -> None:
    _, log, _ = run(closed("a", 1, duration_s=1.5), closed("b", 1, duration_s=1.0))
    by_start = sorted(log.records, key=lambda record: record.sent_s)
    assert [(record.task, record.phase) for record in by_start] == [
        ("phase 0", 0),
        ("phase 0", 0),
        ("phase 1", 1),
    ]


def test_a_phase_of_output_tokens_ends_when_its_answers_hold_them() -> None:
    """Two at a time, ten tokens a second each: 35 tokens are there after the fourth answer."""
    _, log, _ = run(closed("a", 2, output_tokens=35), closed("b", 1, duration_s=1.0))
    assert log.ends_s == pytest.approx([2.0, 3.0])


def test_an_open_loop_sends_at_its_rate_whatever_is_in_flight() -> None:
    phase = TracePhase("a", (("easy", 1.0),), rate_per_s=50.0, duration_s=10.0)
    sender, log, _ = run(phase)
    assert 430 < len(log.records) < 570
    assert sender.most_between(2.0, 10.0) > 35
    assert max(record.sent_s for record in log.records) < 10.0


def test_a_server_that_is_gone_ends_the_run() -> None:
    with pytest.raises(BenchError, match="20 requests in a row failed, the last one with: refused"):
        run(closed("a", 4, duration_s=100.0), sender=Sender(fails=True))


def test_a_cancelled_run_keeps_what_it_saw() -> None:
    log = PhaseLog()

    async def scenario() -> None:
        async def read_counters() -> None:
            pass

        phase_run = PhaseRun(Sender(), Source(), now_s, log, zero_s=now_s(), seed=0)
        phases = [(0, closed("a", 3, duration_s=2.0)), (1, closed("b", 3, duration_s=9.0))]
        async with asyncio.timeout(4.5):
            await phase_run.run(phases, read_counters, lambda phase: None)

    with pytest.raises(TimeoutError):
        run_virtually(scenario())
    assert log.ends_s == pytest.approx([2.0])
    assert len(log.records) == 12
    assert log.num_unfinished == 3
