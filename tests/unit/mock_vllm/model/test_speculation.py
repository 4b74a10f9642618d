"""Scripted speculation: the configuration, and which drafts are accepted."""

from __future__ import annotations

import pytest

from paceline.testing.mock_vllm.model.speculation import (
    DraftVerdicts,
    Speculation,
    read_speculative_config,
)

SYNTHETIC = {"rejection_sample_method": "synthetic"}


def test_a_configuration_of_vllm_is_read() -> None:
    document = {
        **SYNTHETIC,
        "method": "draft_model",
        "model": "draft",
        "num_speculative_tokens": 2,
        "synthetic_acceptance_rates": [0.9, 0],
    }
    assert read_speculative_config(document) == Speculation(2, (0.9, 0.0))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a JSON object"),
        ({"temperature": 1}, "temperature is unknown; allowed keys are num_speculative_tokens"),
        ({"num_speculative_tokens": 2}, "rejection_sample_method must be synthetic.*got None"),
        ({**SYNTHETIC, "num_speculative_tokens": 2}, "a list of numbers, got 2 and None"),
        (
            {**SYNTHETIC, "num_speculative_tokens": 2, "synthetic_acceptance_rates": [0.5]},
            "a rate for each of the 2 draft tokens, got \\[0.5\\]",
        ),
        (
            {**SYNTHETIC, "num_speculative_tokens": 2, "synthetic_acceptance_rates": [0.5, 0.6]},
            "that never rise, got \\[0.5, 0.6\\]",
        ),
        (
            {**SYNTHETIC, "num_speculative_tokens": 1, "synthetic_acceptance_rates": [1.1]},
            "probabilities from 0 to 1",
        ),
        (
            {**SYNTHETIC, "num_speculative_tokens": 0, "synthetic_acceptance_rates": []},
            "num_speculative_tokens must be at least 1, got 0",
        ),
    ],
)
def test_a_wrong_configuration_is_refused(document: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_speculative_config(document)


def test_drafts_are_accepted_up_to_the_first_rejection() -> None:
    verdicts = DraftVerdicts((1.0, 1.0, 0.0, 0.0), "seed")
    assert [verdicts.num_accepted(position, 4) for position in (1, 4, 50)] == [2, 2, 2]
    assert verdicts.num_accepted(1, 1) == 1


def test_rates_are_the_chances_that_all_drafts_so_far_are_accepted() -> None:
    """Of 20,000 drafts: the standard error is 0.0035 at most."""
    verdicts = DraftVerdicts((0.8, 0.4, 0.3), "seed")
    counts = [verdicts.num_accepted(3 * draft, 3) for draft in range(20_000)]
    shares = [sum(count > depth for count in counts) / len(counts) for depth in range(3)]
    assert shares == pytest.approx((0.8, 0.4, 0.3), abs=0.015)


def test_a_token_meets_the_same_luck_at_every_draft_length() -> None:
    """With equal chances at every depth, the first rejection does not depend on the length."""
    rates = tuple(0.7 ** (depth + 1) for depth in range(8))
    long, short = (DraftVerdicts(rates, "seed") for _ in range(2))
    for position in range(0, 400, 8):
        whole = long.num_accepted(position, 8)
        first = short.num_accepted(position, 4)
        assert first == min(whole, 4)


def test_other_seeds_have_other_luck() -> None:
    def run(seed: str) -> list[int]:
        verdicts = DraftVerdicts((0.5, 0.25), seed)
        return [verdicts.num_accepted(position, 2) for position in range(0, 100, 2)]

    assert run("a") == run("a")
    assert run("a") != run("b")
