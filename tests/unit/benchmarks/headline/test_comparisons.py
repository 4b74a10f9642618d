"""The best static length, noise, users, prices and acceptance."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.headline.comparisons import (
    acceptance,
    best_static,
    of_best_static,
    second_control,
    usd_per_million_tokens,
    users,
)
from benchmarks.headline.measured import TOKENS_PER_S, Measured, read_measured

from .documents import document


def measured(rates: dict[str, list[list[float]]], cells: list[str], **how: object) -> Measured:
    return read_measured(document(rates, cells, **how))  # type: ignore[arg-type]


def test_the_best_static_length_is_scored_on_a_repeat_that_did_not_choose_it() -> None:
    """K=2 wins repeats 0 and 1, K=8 repeat 2 by far; repeat 2 is scored with K=2."""
    rates = {
        "vllm": [[50.0]] * 3,
        "vllm+layout+K=2": [[100.0], [100.0], [80.0]],
        "vllm+layout+K=8": [[90.0], [90.0], [120.0]],
    }
    found = measured(rates, ["chat-1"])
    best = best_static(found)
    assert best is not None
    assert best.chosen == ("vllm+layout+K=8", "vllm+layout+K=8", "vllm+layout+K=2")
    assert best.is_cross_fitted
    assert of_best_static(found, best, TOKENS_PER_S, "chat-1").tolist() == [90.0, 90.0, 80.0]


def test_one_length_is_chosen_for_all_cells_whose_rate_is_the_servers_own() -> None:
    """K=2 has 100*100 against 150*60; with the rates after a system prompt it would have lost."""
    rates = {
        "vllm": [[50.0, 50.0, 1.0]],
        "vllm+K=2": [[100.0, 100.0, 1.0]],
        "vllm+layout+ngram+K=8": [[150.0, 60.0, 99.0]],
    }
    best = best_static(measured(rates, ["chat-1", "code-sampled-4", "system-new"]))
    assert best is not None
    assert best.chosen == ("vllm+K=2",)
    assert not best.is_cross_fitted


def test_without_a_static_length_there_is_no_best() -> None:
    assert best_static(measured({"vllm": [[1.0]], "paceline": [[1.0]]}, ["chat-1"])) is None


def test_the_second_of_two_equal_servers() -> None:
    found = measured(
        {"vllm": [[100.0]], "vllm#again": [[110.0]], "vllm+layout": [[1.0]]}, ["chat-1"]
    )
    assert second_control(found, "vllm") == "vllm#again"
    assert second_control(found, "vllm+layout") is None


def test_users_are_the_highest_level_below_which_all_hold() -> None:
    """At 10 tokens/s and more a user reads along; 9 at level 4 ends it, whatever follows."""
    cells = ["chat-1", "chat-4", "chat-16"]
    rates = {"vllm": [[50.0, 9.0, 50.0]], "paceline": [[50.0, 20.0, 10.0]], "naive": [[5.0] * 3]}
    found = measured(rates, cells)
    assert users(found, "vllm").tolist() == [1.0]
    assert users(found, "paceline").tolist() == [16.0]
    assert np.isnan(users(found, "naive")).all()


def test_a_late_first_token_ends_a_level() -> None:
    late = [(10, 11, 1001.0, 1100.0, None)]
    found = measured({"vllm": [[50.0]]}, ["chat-1"], requests=late)
    assert np.isnan(users(found, "vllm")).all()


def test_the_price_of_tokens() -> None:
    """100 tokens/s are 0.36M an hour; at $0.36 an hour, $1 per 1M."""
    found = measured({"vllm": [[100.0], [50.0]]}, ["chat-16"])
    assert usd_per_million_tokens(found, "vllm", 0.36) == pytest.approx([1.0, 2.0])


def test_acceptance_is_accepted_over_drafted() -> None:
    rates = {"vllm": [[1.0, 1.0]], "paceline": [[1.0, 1.0]]}
    found = measured(rates, ["chat-1", "code-sampled-4"], drafted={"paceline": (40, 30)})
    assert acceptance(found, "paceline", ["chat-1", "code-sampled-4"]).tolist() == [0.75]
    assert np.isnan(acceptance(found, "vllm", ["chat-1"])).all()
