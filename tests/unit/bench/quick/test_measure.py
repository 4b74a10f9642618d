"""Whole quick measurements against servers with a known limit, a known gain, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.foundation.load.config import BenchError
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from paceline.workbench.bench.quick import measure, window
from paceline.workbench.bench.quick.config import QuickConfig
from paceline.workbench.bench.quick.measure import QuickResult, measure_quickly
from unit.bench.governor.governed_server import GovernedServer


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(window, "MIN_HOLD_S", 0.4)
    monkeypatch.setattr(window, "MAX_HOLD_S", 0.4)
    monkeypatch.setattr(window, "MAX_RAMP_S", 0.1)
    return iter(())


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "p.jsonl"
    file.write_text('{"messages": [{"role": "user", "content": "Why?"}]}')
    return str(file)


def result_for(config: QuickConfig) -> QuickResult:
    return QuickResult(config, describe_environment(["quick"]))


async def test_the_slots_of_a_server_are_found(
    prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three slots of 1.2 s per answer: of four chats, each waits 400 ms for a slot."""
    monkeypatch.setattr(window, "MIN_HOLD_S", 2.7)
    monkeypatch.setattr(window, "MAX_HOLD_S", 2.7)
    settings = MockVllmSettings(
        tpot_ms=60, max_num_seqs=3, eos_every_tokens=0, prefill_tokens_per_s=1e6
    )
    async with MockVllm(settings) as server:
        config = QuickConfig(
            server.url, prompts_file=prompts, max_tokens=21, ttft_limit_s=0.3, seconds=21
        )
        result = result_for(config)
        await measure_quickly(result, None, None, lambda: None)
    held = result.held
    assert held is not None
    assert held.value == 3
    assert held.high is not None
    assert held.low <= held.value <= held.high <= 8
    assert result.gain.gain is None
    assert result.gain.reason is not None
    assert "give --admin-url" in result.gain.reason
    assert result.duration_s < 30
    assert result.notes == []


async def test_the_gain_of_speculation_is_measured_and_the_governor_set_back(
    governed: GovernedServer, prompts: str
) -> None:
    """A token takes 2 ms with drafts and 16 ms without."""
    config = QuickConfig(
        governed.url, admin_url=governed.url, prompts_file=prompts, seconds=6, max_concurrency=2
    )
    result = result_for(config)
    await measure_quickly(result, None, None, lambda: None)
    gain = result.gain
    assert (gain.low, gain.gain, gain.high) == pytest.approx((8.0,) * 3, rel=1e-3)
    assert governed.policy == "goodput"
    assert gain.concurrency == 1
    held = result.held
    assert held is not None
    assert (held.value, held.high) == (2, None)


@pytest.mark.parametrize(("workload", "temperature"), [("hard", 1.0), ("mixed", 0.0)])
async def test_requests_have_the_temperature_of_their_workload(
    governed: GovernedServer, workload: str, temperature: float
) -> None:
    """Greedy answers to prompts that are meant to be sampled are drafted too well."""
    config = QuickConfig(governed.url, workload=workload, seconds=5, max_concurrency=1)
    await measure_quickly(result_for(config), None, None, lambda: None)
    assert {body["temperature"] for body in governed.bodies} == {temperature}


async def test_an_interrupted_measurement_sets_the_governor_back(
    governed: GovernedServer, prompts: str
) -> None:
    config = QuickConfig(
        governed.url, admin_url=governed.url, prompts_file=prompts, seconds=5, max_concurrency=1
    )
    result = result_for(config)
    task = asyncio.create_task(measure_quickly(result, None, None, lambda: None))
    await governed.off.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert governed.policy == "goodput"
    assert len(result.windows) >= 1
    assert result.duration_s > 0


async def test_a_server_without_governor_has_a_reason_instead_of_a_gain(
    governed: GovernedServer, prompts: str
) -> None:
    governed.has_governor = False
    config = QuickConfig(
        governed.url, admin_url=governed.url, prompts_file=prompts, seconds=5, max_concurrency=1
    )
    result = result_for(config)
    await measure_quickly(result, None, None, lambda: None)
    assert result.gain.gain is None
    assert "does not draft" in str(result.gain.reason)


async def test_answers_too_long_for_the_time_leave_the_gain_unknown(
    governed: GovernedServer, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_ANSWERS_PER_ROUND", 10_000)
    config = QuickConfig(
        governed.url, admin_url=governed.url, prompts_file=prompts, seconds=5, max_concurrency=1
    )
    result = result_for(config)
    await measure_quickly(result, None, None, lambda: None)
    assert "too long for the time" in str(result.gain.reason)
    assert governed.changes == []


@pytest.mark.parametrize(
    ("refuses", "note"),
    [
        ((), None),
        (("cache_salt",), "the server refuses cache_salt"),
        (("/v1/chat/completions",), "the model answers no chats"),
    ],
)
async def test_requests_take_the_form_that_the_server_accepts(
    governed: GovernedServer, prompts: str, refuses: tuple[str, ...], note: str | None
) -> None:
    governed.refuses = refuses
    config = QuickConfig(governed.url, prompts_file=prompts, seconds=5, max_concurrency=1)
    result = result_for(config)
    await measure_quickly(result, None, None, lambda: None)
    assert [one.split(":")[0] for one in result.notes] == ([note] if note else [])
    salts = [body.get("cache_salt") for body in governed.bodies]
    if "cache_salt" in refuses:
        assert set(salts) == {None}
    else:
        assert len(set(salts)) == len(salts)


async def test_a_server_that_answers_nothing_is_an_error(
    governed: GovernedServer, prompts: str
) -> None:
    governed.refuses = ("model",)
    config = QuickConfig(governed.url, prompts_file=prompts)
    with pytest.raises(BenchError, match="answers no request: status 400: refused"):
        await measure_quickly(result_for(config), None, None, lambda: None)
