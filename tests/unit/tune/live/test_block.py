"""The requests of a trial, and servers that cannot carry it out."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError
from paceline.foundation.results.slo import Slo
from paceline.foundation.workloads import Prompt, SamplingSettings
from paceline.testing.mock_vllm import Fault, FaultKind, MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation
from paceline.workbench.tune.live.block import LiveServer, LoadSettings
from paceline.workbench.tune.live.governor import GovernorControl
from paceline.workbench.tune.values import (
    LiveSetting,
    Purpose,
    TuneError,
)

PROMPTS = [Prompt("t", None, f"request {n}", max_tokens=4, ignore_eos=True) for n in range(20)]


def load(prompts: Sequence[Prompt] = PROMPTS) -> LoadSettings:
    sampling = SamplingSettings("", 0.0, None, None, 0, {})
    return LoadSettings(prompts, sampling, Slo(ttft_ms=60_000), block_s=0.25, seed=0)


def test_every_prompt_is_for_one_purpose() -> None:
    """Of 20, a fifth qualify, and a fifth are held out."""
    texts = {
        purpose: {one.text for n in range(5) for one in load().sequence(purpose, n)}
        for purpose in Purpose
    }
    assert {purpose: len(some) for purpose, some in texts.items()} == {
        Purpose.SEARCH: 12,
        Purpose.QUALIFYING: 4,
        Purpose.HELD_OUT: 4,
    }
    assert len(set.union(*texts.values())) == 20


def test_a_sequence_is_always_the_same_and_differs_from_the_next() -> None:
    first, second = (load().sequence(Purpose.SEARCH, n) for n in (0, 1))
    assert first == load().sequence(Purpose.SEARCH, 0)
    assert first != second
    assert sorted(map(str, first)) == sorted(map(str, second))


def test_every_purpose_needs_a_prompt() -> None:
    assert all(load(PROMPTS[:3]).sequence(purpose, 0) for purpose in Purpose)
    with pytest.raises(TuneError, match="has 2 prompts and needs at least 3"):
        load(PROMPTS[:2]).sequence(Purpose.SEARCH, 0)


async def test_a_server_that_answers_nothing_has_failed() -> None:
    fault = Fault(FaultKind.STATUS, status=503, rate=1.0)
    settings = MockVllmSettings()
    async with MockVllm(settings, faults=[fault]) as mock, aiohttp.ClientSession() as session:
        client = StreamingClient(session, URL(mock.url), None, 60)
        server = LiveServer(client, load(), settings.model, None, "salt")
        with pytest.raises(BenchError, match="answered none of"):
            await server.warm_up([LiveSetting(None, 2)])


async def test_a_server_without_a_governor_is_refused_where_draft_lengths_are_tried() -> None:
    async with MockVllm() as mock, aiohttp.ClientSession() as session:
        governor = GovernorControl(session, URL(mock.url))
        with pytest.raises(TuneError, match="answered with status 404"):
            await governor.hold(2)


async def test_a_draft_length_that_the_server_refuses_is_an_error() -> None:
    settings = MockVllmSettings(speculation=Speculation(1, (0.9,)))
    async with MockVllm(settings) as mock, aiohttp.ClientSession() as session:
        governor = GovernorControl(session, URL(mock.url))
        with pytest.raises(TuneError, match="draft_length from 0 to 1"):
            await governor.hold(2)
