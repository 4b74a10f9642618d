"""The load of `doctor_silence.py`, on a mock server: every kind is sent, and failures are noted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import aiohttp
import pytest

from benchmarks.changing_load import (
    HARD,
    KINDS,
    LEFT,
    MIXED,
    ChangingLoad,
    Kind,
    Phase,
    num_failed,
    phases,
)
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.bench.trace.virtual_time import clocks_of_the_event_loop

__all__ = ["clocks_of_the_event_loop"]

MODEL = "m"
FAST = MockVllmSettings(model=MODEL, tpot_ms=1, eos_every_tokens=5)
SLOW = MockVllmSettings(model=MODEL, tpot_ms=50, eos_every_tokens=0)


async def send(settings: MockVllmSettings, kind: Kind, seconds: float = 0.5) -> dict[str, Any]:
    """What the load notes of one phase of this kind."""
    async with MockVllm(settings) as server:
        return await send_to(server.url, kind, seconds)


async def send_to(url: str, kind: Kind, seconds: float) -> dict[str, Any]:
    load = ChangingLoad(url, MODEL, iter([Phase(kind, seconds)]), seed=0)
    await asyncio.wait_for(load.run(), 60)
    (sent,) = load.sent
    assert sent["kind"] == kind.name
    return sent


async def test_a_closed_loop_keeps_sending_until_the_phase_ends() -> None:
    sent = await send(FAST, Kind("streams", 2, (MIXED, HARD)))
    assert set(sent["outcomes"]) == {"ok"}
    assert sent["outcomes"]["ok"] > 4
    assert 0.5 <= sent["seconds"] < 1


async def test_an_idle_phase_sends_nothing() -> None:
    sent = await send(FAST, Kind("idle"))
    assert not sent["outcomes"]
    assert sent["seconds"] >= 0.5


async def test_a_burst_sends_all_requests_once_per_interval() -> None:
    sent = await send(FAST, Kind("bursts", 8, (MIXED,), burst_every_s=60.0))
    assert sent["outcomes"] == {"ok": 8}


async def test_clients_that_leave_do_not_count_as_failures() -> None:
    sent = await send(SLOW, Kind("leave", 4, (HARD,), mean_stay_s=0.02))
    assert set(sent["outcomes"]) == {LEFT}
    assert num_failed([sent]) == 0


async def test_requests_that_the_server_fails_are_noted() -> None:
    fault = [{"kind": "status", "status": 500}]
    async with MockVllm(FAST) as server, aiohttp.ClientSession() as http:
        await http.post(f"{server.url}/mock_vllm/faults", json=fault)
        sent = await send_to(server.url, Kind("streams", 2, (MIXED,)), 0.3)
    assert num_failed([sent]) == sent["outcomes"]["http_error"] == 2
    assert "500" in sent["errors"][0]


async def test_a_load_that_is_cancelled_keeps_what_it_sent() -> None:
    def one_phase() -> Iterator[Phase]:
        yield Phase(Kind("streams", 1, (MIXED,)), 60.0)

    async with MockVllm(FAST) as server:
        load = ChangingLoad(server.url, MODEL, one_phase(), seed=0)
        sending = asyncio.create_task(load.run())
        await asyncio.sleep(0.5)  # sleep: of virtual time
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
    assert load.sent[0]["outcomes"]["ok"] > 0


def test_each_round_has_every_kind_in_another_order() -> None:
    drawn = list(islice(phases(0, 60, 120), 2 * len(KINDS)))
    first, second = drawn[: len(KINDS)], drawn[len(KINDS) :]
    names = [[phase.kind.name for phase in some] for some in (first, second)]
    assert sorted(names[0]) == sorted(names[1]) == sorted(kind.name for kind in KINDS)
    assert names[0] != names[1]
    assert list(islice(phases(0, 60, 120), len(KINDS))) == first


@pytest.mark.parametrize(
    "kind", [("too many", 9, (MIXED,)), ("no text", 1, ()), ("none", 0, (HARD,))]
)
def test_a_kind_that_is_not_healthy_or_has_no_text_is_refused(
    kind: tuple[str, int, tuple[Any, ...]],
) -> None:
    with pytest.raises(ValueError, match=kind[0]):
        Kind(*kind)
