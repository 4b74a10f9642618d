"""The length of answers, and what short ones cost long drafts."""

from __future__ import annotations

import math
import random

import pytest

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.answer_length import AnswerLength
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import make_forecast
from paceline.governor.values import EngineLoad, StepSample


def decoding(
    num_requests: int,
    accepted: tuple[int, ...] = (),
    num_ended: int = 0,
    num_prefilling: int = 0,
) -> StepSample:
    return StepSample(
        num_requests=num_requests,
        requested_draft_length=8 if accepted else 0,
        drafted=(8,) * len(accepted),
        accepted=accepted,
        verified_draft_tokens=8 * len(accepted),
        draft_length=8,
        prefill_tokens=0,
        context_tokens=100,
        duration_s=0.01,
        is_clean=True,
        num_ended=num_ended,
        num_prefilling=num_prefilling,
    )


def test_answers_are_taken_to_be_long_at_first() -> None:
    """512 tokens, which weigh as much as half an answer: (256 + 100) / (0.5 + 0) until one ends."""
    learned = AnswerLength()
    assert learned.tokens == 512.0
    learned.observe(decoding(100))
    assert learned.tokens == 712.0


def test_sixty_four_answers_displace_what_was_known() -> None:
    """Of the first assumption, 256 tokens in half an answer, 1/e is left."""
    learned = AnswerLength()
    learned.observe(decoding(64, num_ended=64))
    assert learned.tokens == pytest.approx((256 / math.e + 64) / (0.5 / math.e + 64))


def test_requests_that_prefill_yield_no_tokens() -> None:
    """Of four requests one decodes; answers that end without tokens count as one token."""
    learned = AnswerLength()
    learned.observe(decoding(4, num_prefilling=3))
    assert learned.tokens == (256 + 1) / 0.5
    for _ in range(300):
        learned.observe(decoding(4, num_prefilling=4, num_ended=4))
    assert learned.tokens == 1.0


def test_the_mean_length_is_found() -> None:
    """Four requests of 64 tokens, three tokens a step: one ends every 64 / 12 steps."""
    learned = AnswerLength()
    tokens = 0
    for _ in range(2000):
        before, tokens = tokens, tokens + 12
        learned.observe(decoding(4, (2, 2, 2, 2), num_ended=tokens // 64 - before // 64))
    assert learned.tokens == pytest.approx(64, rel=0.05)


def test_the_forecast_knows_what_ends_of_answers_waste() -> None:
    """The gain of 8 over 2 drafts at 0.9, forecast and by drawing answers of 32 tokens."""
    acceptance = AcceptanceModel(8)
    draw = random.Random(0)
    for _ in range(400):
        acceptance.observe(decoding(8, tuple(_run(draw) for _ in range(8))))
    cost = CostModel()
    cost.observe(decoding(1))
    load = EngineLoad(
        num_requests=1, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
    )
    forecast = make_forecast(load, acceptance, cost, answer_tokens=32.0)
    per_step = [value * s for value, s in zip(forecast.values, forecast.seconds, strict=True)]
    steps = {k: sum(_steps_of_answer(draw, k) for _ in range(4000)) for k in (2, 8)}
    assert per_step[8] / per_step[2] == pytest.approx(steps[2] / steps[8], rel=0.05)
    endless = make_forecast(load, acceptance, cost, answer_tokens=math.inf)
    assert endless.tokens[8] / endless.tokens[2] > 1.02 * steps[2] / steps[8]


def _run(draw: random.Random, most: int = 8) -> int:
    accepted = 0
    while accepted < most and draw.random() < 0.9:
        accepted += 1
    return accepted


def _steps_of_answer(draw: random.Random, length: int) -> int:
    tokens = steps = 0
    while tokens < 32:
        tokens += 1 + _run(draw, length)
        steps += 1
    return steps
