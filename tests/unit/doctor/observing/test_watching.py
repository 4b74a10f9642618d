"""What a watch keeps of its readings, and when the server counts as lost."""

from __future__ import annotations

import asyncio

import pytest

from paceline.operations.doctor.checks.latency import first_requests
from paceline.operations.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.operations.doctor.observing.watching import Watch, watch
from paceline.operations.doctor.readings.observation import Observation, Reading
from unit.doctor.gateways import observe_gateway
from unit.doctor.simulated import SimulatedEngine, observe_vllm


class _Server(ObservedServer):
    """Reads these in turn, the last one again and again; None fails."""

    def __init__(self, *answers: Reading | None) -> None:
        self.answers = list(answers)

    async def read(self) -> Reading:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise ReadingFailed("no answer")
        return answer


async def _watch(*answers: Reading | None, seconds: float = 0.0) -> Watch:
    into, stop = Watch(), asyncio.Event()
    stop.set()
    await watch(_Server(*answers), into, stop, seconds)
    return into


async def test_a_failure_at_the_end_is_confirmed() -> None:
    reading = observe_gateway().first
    assert (await _watch(None)).lost == "no answer"
    recovered = await _watch(None, reading)
    assert (recovered.lost, len(recovered.failures)) == (None, 1)


def test_only_the_first_and_the_last_page_are_kept() -> None:
    whole = observe_gateway(seconds=4)
    into = Watch()
    for reading in whole.readings:
        into.add(reading)
    assert [bool(one.page.samples) for one in into.readings] == [True, False, False, False, True]
    thinned = Observation("paceline", into.readings)
    assert thinned.engines == whole.engines
    assert thinned.last is whole.last


def test_slow_first_requests_are_found_in_what_is_kept() -> None:
    whole = observe_vllm(
        SimulatedEngine(first_tokens_s=(2.0, 2.0, *[0.05] * 12), answered_before=0)
    )
    (expected,) = first_requests.CHECK.judge(whole)
    into = Watch()
    for reading in whole.readings:
        into.add(reading)
    assert first_requests.CHECK.judge(Observation("vllm", into.readings)) == [expected]


@pytest.mark.parametrize("num_failures", [1, 2])
def test_a_reading_after_failures_is_no_loss(num_failures: int) -> None:
    into = Watch()
    for _ in range(num_failures):
        into.add_failure("no answer")
    assert (into.lost is not None) == (num_failures == 2)
    into.add(observe_gateway().first)
    assert into.lost is None
