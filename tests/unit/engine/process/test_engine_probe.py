"""Health checks, and warm-up requests for engines of different context lengths."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.engine.process.engine_probe import (
    EngineProbe,
    EngineProbeFailed,
    EngineProbeNotSent,
    warm_up_requests,
)
from unit.no_descriptors import no_descriptors


@pytest.mark.parametrize("max_model_len", [16, 17, 127])
def test_warm_up_requests_fit_a_short_context(max_model_len: int) -> None:
    """One letter is at most eight tokens, special tokens of the tokenizer included."""
    for request in warm_up_requests(max_model_len):
        assert 1 <= request["max_tokens"] <= min(24, max_model_len - 8)
        assert len(request["prompt"]) == 1


@pytest.mark.parametrize("max_model_len", [128, 32_768, None])
def test_warm_up_requests_are_equal_for_longer_contexts(max_model_len: int | None) -> None:
    assert [request["max_tokens"] for request in warm_up_requests(max_model_len)] == [24, 24]


@pytest.mark.parametrize("max_model_len", [16, None])
def test_a_warm_up_request_asks_for_log_probabilities(max_model_len: int | None) -> None:
    """vLLM compiles their kernel at the first such request, and all streams wait for that.

    0 asks for no more than the tokens' own, which `--max-logprobs 0` allows too.
    """
    assert any(request.get("logprobs") == 0 for request in warm_up_requests(max_model_len))


async def test_a_check_without_descriptors_says_nothing_about_the_engine(tmp_path: Path) -> None:
    async with EngineProbe(tmp_path / "no.sock") as probe:
        with pytest.raises(EngineProbeFailed) as refused:
            await probe.check_health(1.0)
        assert not isinstance(refused.value, EngineProbeNotSent)
        with no_descriptors(), pytest.raises(EngineProbeNotSent):
            await probe.check_health(1.0)


async def test_an_engine_without_a_version_has_none(tmp_path: Path) -> None:
    async with EngineProbe(tmp_path / "no.sock") as probe:
        assert await probe.fetch_version() is None
