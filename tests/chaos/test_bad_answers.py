"""Replicas whose answers are refused, torn, malformed or endless: what do clients read?

Each fault strikes before the head of an answer, behind the head, and in the middle; streamed and
not.
"""

from __future__ import annotations

import pytest

from chaos.expected_requests import ask_all, faults_of, known, num_struck
from chaos.fleet import Fleet
from chaos.transcript import Ending

NUM_STREAMS = 12
BREAKS = ("reset", "half_close", "tear", "bad_chunking", "stall")
"""What ends an answer too early, or leaves it where it is."""


@pytest.mark.parametrize("after_tokens", [None, 0, 9])
@pytest.mark.parametrize("kind", [*BREAKS, "no_done", "error_event"])
async def test_streams_that_break_go_on(fleet: Fleet, kind: str, after_tokens: int | None) -> None:
    fleet.set_fault(0, kind=kind, after_tokens=after_tokens, times=3)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name=f"{kind}-{after_tokens}")
    assert faults_of(fleet, asked, told) == []
    assert num_struck(fleet, told) == 3


@pytest.mark.parametrize("kind", [*BREAKS, "error_event"])
async def test_whole_answers_that_break_are_made_again(fleet: Fleet, kind: str) -> None:
    """Three of them. A stall goes on in the end, since only a stream can be seen to stand still."""
    lasts = {"duration_s": 1} if kind == "stall" else {}
    fleet.set_fault(0, kind=kind, after_tokens=9, times=3, **lasts)
    asked = [known(number, stream=False) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name=f"whole-{kind}")
    assert faults_of(fleet, asked, told) == []
    assert num_struck(fleet, told) == (0 if kind == "stall" else 3)


async def test_a_third_of_one_replicas_answers_are_5xx(fleet: Fleet) -> None:
    """Nobody sees any of them."""
    fleet.set_fault(0, kind="status", status=503, rate=0.3)
    for round_number in range(8):
        asked = [known(number, max_tokens=8) for number in range(16)]
        told = await ask_all(fleet, asked, name=f"5xx-{round_number}")
        assert faults_of(fleet, asked, told) == []


async def test_a_third_of_all_answers_are_5xx(fleet: Fleet) -> None:
    """Three attempts fail once in 37 times: that client reads a 503 with Retry-After, no less."""
    for replica in (0, 1):
        fleet.set_fault(replica, kind="status", status=503, rate=0.3)
    asked = [known(number, max_tokens=8) for number in range(200)]
    told = await ask_all(fleet, asked, name="5xx-all")
    pairs = zip(asked, told, strict=True)
    whole = [(one, answer) for one, answer in pairs if answer.ending is Ending.COMPLETED]
    assert len(whole) >= 180
    assert faults_of(fleet, *zip(*whole, strict=True)) == []
    assert {(answer.ending, answer.status) for answer in told} <= {
        (Ending.COMPLETED, 200),
        (Ending.REFUSED, 503),
    }


@pytest.mark.parametrize("after_tokens", [0, 9])
async def test_a_line_of_10_mb_passes(fleet: Fleet, after_tokens: int) -> None:
    """… to the client as it is. The gateway is not much larger afterwards, and serves on."""
    await ask_all(fleet, [known(1)])
    before_bytes = fleet.served.rss_bytes()
    for replica in (0, 1):
        fleet.set_fault(replica, kind="long_line", after_tokens=after_tokens, size_bytes=10_000_000)
    told = await ask_all(fleet, [known(number) for number in range(4)], name="long")
    # The line is no JSON, so the client's own parser stumbles: nothing of it was swallowed.
    assert all(answer.status == 200 and "JSONDecodeError" in answer.broke for answer in told)
    assert fleet.served.rss_bytes() - before_bytes < 64 * 1024 * 1024
    fleet.settle()
    asked = [known(number) for number in range(4)]
    assert faults_of(fleet, asked, await ask_all(fleet, asked, name=f"after-{after_tokens}")) == []


async def test_an_event_that_is_no_json_reaches_the_client_as_it_is(fleet: Fleet) -> None:
    fleet.set_fault(0, kind="bad_json", after_tokens=9, times=1)
    told = await ask_all(fleet, [known(0)], name="bad-json")
    assert told[0].ending is not Ending.COMPLETED
    assert "JSONDecodeError" in told[0].broke
