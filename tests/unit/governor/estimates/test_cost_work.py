"""What the cost model says of prompts and bends, and which loads it has measured."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, inf, log1p

import numpy as np
import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample


def step(
    num_requests: int = 1,
    verified: int = 0,
    length: int = 0,
    duration_s: float = 0.0975,
    *,
    context: int = 0,
    prompt: int = 0,
    is_clean: bool = True,
) -> StepSample:
    return ordinary_sample(
        num_requests=num_requests,
        requested_draft_length=0,
        drafted=(),
        accepted=(),
        verified_draft_tokens=verified,
        draft_length=length,
        prefill_tokens=prompt,
        context_tokens=context,
        duration_s=duration_s,
        is_clean=is_clean,
    )


def features(sample: StepSample) -> list[float]:
    """The work of a step, in the order of the coefficients."""
    n, verified, length = sample.num_requests, sample.verified_draft_tokens, sample.draft_length
    prompt = sample.prefill_tokens
    tokens = n + verified + prompt
    bends = [max(tokens - knot, 0) for knot in (96, 160, 256, 384)]
    passes = [int(length > 0), max(length - 1, 0), n * length]
    mixed = [int(prompt > 0), prompt]
    return [1, n, int(verified > 0), sample.context_tokens / 1000, tokens, *bends, *passes, *mixed]


MEANS = (0.95, 0.005, 0.02, 0.005, 0.02, 0, 0, 0, 0, 0.05, 0.05, 0.002, 0, 0)
SPREADS = (1, 0.01, 0.05, 0.01, 0.02, 0.01, 0.01, 0.01, 0.01, 0.1, 0.1, 0.003, 0.2, 0.003)


def most_likely(samples: list[StepSample]) -> np.ndarray:
    """The coefficients after steps of different shapes, by least squares: relative errors of 5 %
    for the durations, 10 % beside prompts, and the spreads of the prior, in units of 0.1 s."""
    errors = [0.1 if one.prefill_tokens else 0.05 for one in samples]
    rows = [
        np.array(features(one)) / (one.duration_s or 0.0) / error
        for one, error in zip(samples, errors, strict=True)
    ]
    rows += list(np.diag(1.0 / (0.1 * np.array(SPREADS))))
    aims = [1.0 / error for error in errors] + list(np.array(MEANS) / np.array(SPREADS))
    found, *_ = np.linalg.lstsq(np.array(rows), np.array(aims), rcond=None)
    return np.asarray(found)


@pytest.mark.parametrize(
    "second",
    [
        step(40, duration_s=0.3),
        step(120, duration_s=0.8),
        step(200, duration_s=1.2),
        step(300, duration_s=1.6),
        step(500, duration_s=3.0),
        step(2, context=50_000, duration_s=0.2),
        step(1, verified=2, duration_s=0.15),
        step(1, length=1, duration_s=0.15),
        step(1, length=4, duration_s=0.4),
        step(30, length=2, duration_s=0.4),
        step(1, prompt=50, duration_s=0.25),
    ],
)
def test_a_second_step_moves_what_is_least_known(second: StepSample) -> None:
    """A step that takes longer than expected: its time is attributed by least squares, to each
    part of the work in proportion to what is unknown of it."""
    model = CostModel()
    first = step()
    model.observe(first)
    model.observe(second)
    expected = most_likely([first, second])
    assert model._coefficients == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-7)


def test_only_a_prompt_token_may_take_less_than_no_time() -> None:
    """Steps with 50 prompt tokens take less than one without: by the tokens, not by the prompt."""
    model = CostModel()
    model.observe(step())
    for _ in range(8):
        model.observe(step(prompt=50, duration_s=0.08))
    *others, mixed, prompt = model._coefficients
    assert min(others) >= 0.0
    assert mixed == 0.0
    assert prompt < -0.0001


def test_nothing_is_measured_before_the_first_step() -> None:
    model = CostModel()
    assert not model.is_measured(1, 0)
    assert model.num_undrafted(1) == 0.0


def bent_s(tokens: float) -> float:
    """20 microseconds a token, and 10, 20, 30 and 40 more beyond each bend."""
    bends = zip((96, 160, 256, 384), (1e-5, 2e-5, 3e-5, 4e-5), strict=True)
    return 2e-5 * tokens + sum(slope * max(tokens - knot, 0) for knot, slope in bends)


@pytest.fixture(scope="module")
def bent() -> CostModel:
    """Has seen 1 to 600 requests without drafts, between all bends."""
    model = CostModel()
    for _ in range(24):
        for n in (1, 50, 96, 128, 160, 200, 256, 300, 384, 450, 600):
            verified = n // 3
            model.observe(step(n, duration_s=0.010 + bent_s(n)))
            model.observe(step(n, verified, duration_s=0.010 + bent_s(n + verified)))
    return model


@pytest.mark.parametrize("tokens", [1, 90, 120, 150, 230, 290, 370, 420, 550, 900])
def test_tokens_take_longer_beyond_each_bend(bent: CostModel, tokens: int) -> None:
    expected_s = 0.010 + bent_s(tokens)
    assert bent.predict_s(tokens, 0, 0, 0) == pytest.approx(expected_s, rel=0.02)


@pytest.mark.parametrize(("prompt", "num_mixed"), [(60, 200), (150, 30), (300, 200), (2000, 10)])
def test_prompts_take_the_time_of_their_tokens_in_the_steps_that_have_some(
    bent: CostModel, prompt: int, num_mixed: int
) -> None:
    """Of 200 steps of 2 requests, the last `num_mixed` had prompts. At a length that yields more,
    more steps have some, of more tokens. What they add is what as many other tokens add."""
    model = CostModel()
    model._fit, model._coefficients, model.is_ready = bent._fit, bent._coefficients, True
    for number in range(200):
        is_mixed = number >= 200 - num_mixed
        model.observe(step(2, prompt=prompt * is_mixed, is_clean=False))
    fraction = min(model.prefills.fraction, 0.98)
    per_output = model.prefills.tokens_per_output
    drafts, outputs = [0.0, 40.0, 100.0, 390.0], [2.0, 3.0, 4.5, 6.0]
    found = model.predict_prompts_s(2, drafts, outputs)
    for num_drafts, num_outputs, more_s in zip(drafts, outputs, found, strict=True):
        # The mean of 2 tokens is output per step; pieces of prompts are independent of each other.
        has_some = -expm1(log1p(-fraction) * num_outputs / 2.0)
        size = per_output * num_outputs / has_some
        with_prompts_s = bent.predict_s(2, num_drafts + size, 0, 0, verifying_fraction=0.0)
        without_s = bent.predict_s(2, num_drafts, 0, 0, verifying_fraction=0.0)
        expected_s = has_some * (with_prompts_s - without_s) / num_outputs
        assert more_s == pytest.approx(expected_s, rel=1e-6)


def test_prompts_are_no_gain() -> None:
    """Where a prompt token seems to take less time than nothing, it takes none."""
    model = CostModel()
    model.observe(step(1))
    for _ in range(30):
        model.observe(step(1, prompt=50, duration_s=0.05))
    for _ in range(300):
        model.observe(step(1, prompt=50, is_clean=False))
    assert model.predict_prompts_s(1, [0.0], [1.0]) == [0.0]


def model_with_prompts(fraction: float, *, prompt: int = 7) -> CostModel:
    """Has measured 1 request without drafts beside prompts only; about this share of the recent
    steps had some."""
    model = CostModel()
    for _ in range(9):
        model.observe(step(prompt=prompt))
    for _ in range(500):
        is_mixed = model.prefills.fraction < fraction
        model.observe(step(prompt=prompt * is_mixed, is_clean=False))
    assert model.prefills.fraction == pytest.approx(fraction, abs=0.02)
    return model


@pytest.mark.parametrize(
    ("fraction", "counts"), [(0.35, False), (0.47, False), (0.53, True), (0.9, True)]
)
def test_steps_beside_prompts_count_where_most_steps_have_some(
    fraction: float, counts: bool
) -> None:
    model = model_with_prompts(fraction)
    assert model.is_measured(1, 0) is counts
    assert model.num_undrafted(1) == (inf if counts else 0.0)
    assert model.num_undrafted(2) == 0.0


def test_where_most_steps_have_prompts_only_steps_without_drafts_are_undrafted() -> None:
    model = CostModel()
    for _ in range(9):
        model.observe(step(length=1, prompt=7))
    assert model.prefills.fraction == 1.0
    assert model.is_measured(1, 1)
    assert model.num_undrafted(1) == 0.0


def test_undrafted_steps_are_counted_by_size() -> None:
    """3 steps of 5 requests, which neither draft nor verify and have no prompts: of 4 to 7."""
    model = CostModel()
    for _ in range(3):
        model.observe(step(5))
        for other in (step(5, length=1), step(5, verified=3), step(5, prompt=30), step(40)):
            model.observe(replace(other, duration_s=0.2))
    assert [model.num_undrafted(n) for n in (3, 4, 5, 7, 8)] == [0.0, 3.0, 3.0, 3.0, 0.0]
