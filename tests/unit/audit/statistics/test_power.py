"""The stated power is what simulated audits of a biased endpoint show."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.workbench.audit.statistics.bets import Batch
from paceline.workbench.audit.statistics.evidence import Evidence, Observed
from paceline.workbench.audit.statistics.power import (
    growth_needed,
    probability_shift,
    smallest_bias,
)

ABOVE = 1000.0


def test_more_tokens_find_smaller_biases_and_none_find_nothing() -> None:
    tops = np.full(40_000, 0.6)
    found = [smallest_bias(tops[:num], found_above=ABOVE) for num in (0, 100, 2_000, 40_000)]
    assert found[0] is None
    assert found[1] is None or found[1] > 0.5
    assert found[2] is not None
    assert found[3] is not None
    assert found[2] > found[3] >= 0.05


def test_certain_tokens_hold_no_evidence() -> None:
    assert smallest_bias(np.full(5_000, 1.0), found_above=ABOVE) is None


def test_noise_removes_power_as_its_toll_removes_evidence() -> None:
    """A bias of 0.2 on 0.6 gains about 0.24 * 0.182**2 / 2 = 0.004 nats per token."""
    tops = np.full(40_000, 0.6)
    exact, coarse = (
        smallest_bias(tops, found_above=ABOVE, noise_nats=noise) for noise in (0.0, 0.05)
    )
    assert exact is not None
    assert coarse is not None
    assert exact < coarse
    for bias, noise_nats, can_be_found in ((0.2, 0.05, True), (0.2, 0.1, False), (0.5, 0.1, True)):
        growth = growth_needed(tops, bias=bias, found_above=ABOVE, noise_nats=noise_nats)
        assert (growth is not None) is can_be_found


@pytest.mark.parametrize("noise_nats", [0.0, 0.05])
def test_the_growth_that_is_needed_gives_the_power_and_a_little_less_does_not(
    noise_nats: float,
) -> None:
    tops = np.tile([0.5, 0.6, 0.8], 1_000)
    growth = growth_needed(tops, bias=0.2, found_above=ABOVE, noise_nats=noise_nats)
    assert growth is not None
    assert growth > 1
    found = [
        smallest_bias(
            np.resize(tops, int(share * growth * len(tops))),
            found_above=ABOVE,
            noise_nats=noise_nats,
        )
        for share in (1.01, 0.97)
    ]
    assert found[0] == 0.2
    assert found[1] is None or found[1] > 0.2


@pytest.mark.parametrize(("direction", "noise_nats"), [(1, 0.0), (-1, 0.0), (1, 0.05), (-1, 0.05)])
def test_a_bias_of_the_stated_size_is_found(direction: int, noise_nats: float) -> None:
    """40 audits of an endpoint with the stated bias; 95 % are due, 34 is four deviations less."""
    tops = np.tile([0.5, 0.6, 0.8], 1_000)
    bias = smallest_bias(tops, found_above=ABOVE, noise_nats=noise_nats)
    assert bias is not None
    factor = (1 + bias) ** direction
    biased = factor * tops / (1 - tops + factor * tops)
    draws = np.random.default_rng(0)
    num_found = 0
    for _ in range(40):
        evidence = Evidence(noise_nats)
        index = (draws.random(len(tops)) >= biased).astype(np.int64)
        rows = np.stack([tops, 1 - tops], axis=1)
        numbers = tuple(range(len(tops)))
        batch = Batch(rows, index, np.full(len(tops), 2), {})
        evidence.add(Observed(batch, ("case",) * len(tops), (True,) * len(tops), numbers, numbers))
        num_found += evidence.log_e >= np.log(ABOVE)
    assert num_found >= 34


def test_the_shift_in_probability_follows_from_the_odds() -> None:
    """Odds of 1 become 1.5: from 0.5 to 0.6."""
    assert probability_shift([0.5], 0.5) == pytest.approx(0.1)
