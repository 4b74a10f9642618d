"""Figures from turns, worked out here."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.headline.measured import (
    LATENCY_P50,
    REQUESTS_PER_S,
    TOKENS_PER_S,
    TPOT_P50,
    TPOT_P99,
    TTFT_P50,
    read_measured,
)

from .documents import document

TWO = [(10, 11, 100.0, 1100.0, 150.0), (20, 21, 300.0, 700.0, None)]


def test_figures_of_a_cell() -> None:
    """32 tokens at 8 tokens/s are 4 s; 1000/10 and 400/20 ms per further token."""
    result = document({"vllm": [[8.0]]}, ["chat-1"], requests=TWO)
    measured = read_measured(result)
    found = {
        figure: float(measured.of(figure, "vllm", "chat-1")[0])
        for figure in (TOKENS_PER_S, REQUESTS_PER_S, LATENCY_P50, TTFT_P50, TPOT_P50, TPOT_P99)
    }
    assert found == {
        TOKENS_PER_S: 8.0, REQUESTS_PER_S: 0.5, LATENCY_P50: 900.0, TTFT_P50: 200.0,
        TPOT_P50: 60.0, TPOT_P99: pytest.approx(99.2),
    }  # fmt: skip
    counts = measured.counts["vllm", "chat-1"][0]
    assert (counts.num_requests, counts.prompt_tokens, counts.output_tokens) == (2, 30, 32)


def test_a_gain_above_one_is_better_whatever_the_figure() -> None:
    rates = {"vllm": [[50.0], [100.0]], "paceline": [[100.0], [300.0]]}
    measured = read_measured(document(rates, ["chat-1"]))
    rate = measured.gain(TOKENS_PER_S, "paceline", "vllm", "chat-1")
    assert rate.tolist() == [2.0, 3.0]
    assert np.allclose(measured.gain(TPOT_P50, "paceline", "vllm", "chat-1"), [2.0, 3.0])


def test_only_complete_repeats_count() -> None:
    rates = {"vllm": [[50.0], [100.0]], "paceline": [[100.0], [300.0]]}
    result = document(rates, ["chat-1"])
    assert read_measured(result).num_repeats == 2
    del result["runs"][-1]
    assert read_measured(result).num_repeats == 1
    result["runs"] = result["runs"][:1]
    with pytest.raises(ValueError, match="no repeat is complete"):
        read_measured(result)


def test_a_cell_that_an_arm_does_not_run_has_no_figures() -> None:
    measured = read_measured(document({"naive": [[9.0, None]], "vllm": [[50.0, 60.0]]},
                                      ["chat-1", "chat-64"]))  # fmt: skip
    assert np.isnan(measured.of(TOKENS_PER_S, "naive", "chat-64")).all()
    assert measured.has("chat-1", "naive", "vllm")
    assert not measured.has("chat-64", "naive", "vllm")
    assert not measured.has("chat-64", "paceline")


def test_the_limit_is_the_bandwidth_over_the_bytes_of_the_weights() -> None:
    """20 and 24 GB/s, 200 MB."""
    result = document({"vllm": [[50.0], [50.0]]}, ["chat-1"])
    limit = read_measured(result).limit_tokens_per_s("vllm")
    assert limit is not None
    assert limit.tolist() == [100.0, 120.0]
    del result["bandwidth_bytes_per_s"]
    assert read_measured(result).limit_tokens_per_s("vllm") is None


def test_a_cell_without_an_answer_is_named() -> None:
    result = document({"vllm": [[50.0]]}, ["chat-1"])
    result["runs"][0] |= {"requests": [], "num_errors": 2}
    with pytest.raises(ValueError, match="vllm answered no request of chat-1 in repeat 0"):
        read_measured(result)
