"""The warm-up requests for engines of different context lengths."""

from __future__ import annotations

import pytest

from paceline.engine.process.engine_probe import warm_up_requests


@pytest.mark.parametrize("max_model_len", [16, 17, 127])
def test_warm_up_requests_fit_a_short_context(max_model_len: int) -> None:
    """One letter is at most eight tokens, special tokens of the tokenizer included."""
    for request in warm_up_requests(max_model_len):
        assert 1 <= request["max_tokens"] <= min(24, max_model_len - 8)
        assert len(request["prompt"]) == 1


@pytest.mark.parametrize("max_model_len", [128, 32_768, None])
def test_warm_up_requests_are_equal_for_longer_contexts(max_model_len: int | None) -> None:
    assert [request["max_tokens"] for request in warm_up_requests(max_model_len)] == [24, 24]
