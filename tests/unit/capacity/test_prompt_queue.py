"""Waiting for prompts against closed forms and its limits."""

from __future__ import annotations

import math

import pytest

from paceline.foundation.capacity.prompt_queue import (
    NO_WAIT,
    PromptQueue,
    PromptWait,
    gamma_quantile,
    mixed_wait,
)


def test_without_other_prompts_a_request_waits_for_the_step_in_progress_and_its_own() -> None:
    """Half of a step of 20 ms on average, and the decodes of the step that takes the prompt."""
    wait = PromptQueue(0.0, prompt_s=0.1, step_s=0.02, steps_per_prompt=0.2).wait()
    assert wait.mean_s == pytest.approx(0.03)
    assert wait.quantile_s(0.5) == pytest.approx(0.03)
    assert wait.quantile_s(0.95) == pytest.approx(0.039)


def test_a_prompt_of_three_steps_waits_for_the_decodes_of_three() -> None:
    wait = PromptQueue(0.0, prompt_s=0.3, step_s=0.02, steps_per_prompt=2.5).wait()
    assert wait.mean_s == pytest.approx(0.07)


def test_the_mean_of_the_gated_cycle_by_hand() -> None:
    """5 prompts/s of 0.1 s beside steps of 0.02 s: k1 = 0.04, k2 = 0.01 * 5 * 0.04 / 0.75.

    E[C*] = (k2 + k1²) / k1 = 0.10667; the wait is E[C*] * (0.5 + 0.5) + 0.02.
    """
    wait = PromptQueue(5.0, prompt_s=0.1, step_s=0.02, steps_per_prompt=1e-9).wait()
    assert wait.mean_s == pytest.approx(0.04 + 0.05 / 0.75 + 0.02)


def test_prompts_in_turn_without_decodes_are_the_m_g_1_queue() -> None:
    """Pollaczek and Khinchine: 0.5 prompts/s of 1 s wait 0.5 / (2 * 0.5) s. A prompt that ends
    within a step waits for the other half of it where another prompt fills it."""
    wait = PromptQueue(0.5, prompt_s=1.0, step_s=1e-9, steps_per_prompt=1e6).wait()
    assert wait.mean_s == pytest.approx(0.5, rel=0.01)
    assert wait.ahead_fraction == pytest.approx(0.5, rel=0.01)


def test_small_steps_make_prompts_wait_longer() -> None:
    waits = [
        PromptQueue(4.0, prompt_s=0.1, step_s=0.02, steps_per_prompt=steps).wait().mean_s
        for steps in (0.1, 0.5, 0.9, 2.0, 4.0)
    ]
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]


@pytest.mark.parametrize(
    ("arrivals_per_s", "steps_per_prompt"), [(10.0, 0.1), (8.0, 2.0), (1000.0, 0.5)]
)
def test_prompts_faster_than_they_are_computed_are_refused(
    arrivals_per_s: float, steps_per_prompt: float
) -> None:
    with pytest.raises(ValueError, match=r"it must be below 100 %: send a replica fewer requests"):
        PromptQueue(arrivals_per_s, 0.1, 0.02, steps_per_prompt)


def test_the_wait_has_no_bound_near_saturation() -> None:
    waits = [PromptQueue(rate, 0.1, 0.02, 1e-6).wait().mean_s for rate in (9.0, 9.9, 9.99)]
    assert waits[1] > 5 * waits[0]
    assert waits[2] > 5 * waits[1]


def test_parts_are_mixed_by_their_shares() -> None:
    """A tenth of the requests is alone; a tenth of the others finds prompts."""
    other = PromptWait(0.0, 0.9, 1.0, 2.0, 10.0, 4.0)
    mixed = mixed_wait([(0.1, NO_WAIT), (0.9, other)])
    assert mixed.idle_fraction == pytest.approx(0.1)
    assert mixed.ahead_fraction == pytest.approx(0.09)
    assert mixed.mean_s == pytest.approx(0.9 * other.mean_s)
    assert mixed.ahead_variance_s2 == pytest.approx(4.0)
    assert mixed.quantile_s(0.05) == 0.0
    assert 1.0 < mixed.quantile_s(0.5) < 2.0
    assert mixed.quantile_s(0.999) > 10.0


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.99])
def test_the_gamma_quantile_of_an_exponential_wait(quantile: float) -> None:
    exact = -2.0 * math.log(1 - quantile)
    assert gamma_quantile(2.0, 4.0, quantile) == pytest.approx(exact, rel=0.02)
