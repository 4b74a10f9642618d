"""Clients get correct answers from replicas that refuse, break, stall or corrupt theirs.

Each fault is injected before the head of an answer, after the head, and in the middle; streamed and
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.expected_requests import expected_request, find_errors, num_failed_over, send_all
from chaos.fleet import Fleet, running_fleet
from chaos.transcript import Ending

NUM_STREAMS = 12
BREAKS = ("reset", "half_close", "tear", "bad_chunking", "stall")
"""Faults that end an answer too early or stop it."""


def faults() -> Iterator[Any]:
    """Each kind in the middle of a stream, and two of them before the head and after it too.

    The other combinations are slow tests.
    """
    for kind in (*BREAKS, "no_done", "error_event"):
        for after_tokens in (None, 0, 9):
            is_default = after_tokens == 9 or kind in ("reset", "error_event")
            marks = () if is_default else pytest.mark.slow
            yield pytest.param(kind, after_tokens, marks=marks)


@pytest.mark.parametrize(("kind", "after_tokens"), list(faults()))
async def test_broken_streams_are_continued(
    fleet: Fleet, kind: str, after_tokens: int | None
) -> None:
    fleet.add_fault(0, kind=kind, after_tokens=after_tokens, times=3)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name=f"{kind}-{after_tokens}")
    assert find_errors(fleet, requests, transcripts) == []
    assert num_failed_over(fleet, transcripts) == 3


@pytest.mark.parametrize("kind", [*BREAKS, "error_event"])
async def test_broken_answers_that_are_not_streamed_are_repeated(fleet: Fleet, kind: str) -> None:
    """A stall ends after 1 s and needs no second attempt: only a stream can be seen to stall."""
    duration = {"duration_s": 1} if kind == "stall" else {}
    fleet.add_fault(0, kind=kind, after_tokens=9, times=3, **duration)
    requests = [expected_request(number, stream=False) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name=f"whole-{kind}")
    assert find_errors(fleet, requests, transcripts) == []
    assert num_failed_over(fleet, transcripts) == (0 if kind == "stall" else 3)


async def test_a_third_of_one_replicas_answers_are_5xx(fleet: Fleet) -> None:
    """No client sees any of them."""
    fleet.add_fault(0, kind="status", status=503, rate=0.3)
    for round_number in range(8):
        requests = [expected_request(number, max_tokens=8) for number in range(16)]
        transcripts = await send_all(fleet, requests, name=f"5xx-{round_number}")
        assert find_errors(fleet, requests, transcripts) == []


async def test_a_third_of_all_answers_are_5xx(fleet: Fleet) -> None:
    """All three attempts fail for one request in 37: its client gets a 503 with Retry-After."""
    for replica in (0, 1):
        fleet.add_fault(replica, kind="status", status=503, rate=0.3)
    requests = [expected_request(number, max_tokens=8) for number in range(200)]
    transcripts = await send_all(fleet, requests, name="5xx-all")
    completed = [
        (request, transcript)
        for request, transcript in zip(requests, transcripts, strict=True)
        if transcript.ending is Ending.COMPLETED
    ]
    assert len(completed) >= 180
    assert find_errors(fleet, *zip(*completed, strict=True)) == []
    assert {(transcript.ending, transcript.status) for transcript in transcripts} <= {
        (Ending.COMPLETED, 200),
        (Ending.REFUSED, 503),
    }


PATIENT = {
    "server": {"stall_timeout_s": 60},
    "failures": {"silence_s": 30.0, "first_silence_s": 60.0},
}


@pytest.fixture(scope="module")
def patient_fleet() -> Iterator[Fleet]:
    """A fleet with long stall limits: on a busy machine 10 MB take seconds."""
    with running_fleet(2, "--tpot-ms", "4", config=PATIENT) as running:
        yield running


@pytest.mark.parametrize("after_tokens", [pytest.param(0, marks=pytest.mark.slow), 9])
async def test_a_line_of_10_mb_that_is_no_event_does_not_reach_the_client(
    patient_fleet: Fleet, after_tokens: int
) -> None:
    """Nor does it fill the gateway's memory, which continues to serve."""
    fleet = patient_fleet
    fleet.restore()
    await send_all(fleet, [expected_request(1)])
    before_bytes = fleet.gateway.rss_bytes()
    for replica in (0, 1):
        fleet.add_fault(replica, kind="long_line", after_tokens=after_tokens, size_bytes=10_000_000)
    requests = [expected_request(number) for number in range(4)]
    transcripts = await send_all(fleet, requests, name="long")
    assert [transcript.read_error for transcript in transcripts] == [""] * 4
    assert {transcript.ending for transcript in transcripts} <= {
        Ending.COMPLETED,
        Ending.ERROR_EVENT,
    }
    assert fleet.gateway.rss_bytes() - before_bytes < 64 * 1024 * 1024
    fleet.restore()
    transcripts = await send_all(fleet, requests, name=f"after-{after_tokens}")
    assert find_errors(fleet, requests, transcripts) == []


async def test_a_stream_with_an_event_that_is_no_json_is_continued_elsewhere(fleet: Fleet) -> None:
    fleet.add_fault(0, kind="bad_json", after_tokens=9, times=1)
    requests = [expected_request(0)]
    transcripts = await send_all(fleet, requests, name="bad-json")
    assert transcripts[0].ending is Ending.COMPLETED
    assert find_errors(fleet, requests, transcripts) == []
