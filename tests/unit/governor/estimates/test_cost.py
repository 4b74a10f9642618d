"""The cost model against steps whose durations come from known coefficients."""

from __future__ import annotations

import random

import pytest

from paceline.governor.estimates import cell_regression
from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample


def step(
    num_requests: int,
    verified: int,
    length: int,
    duration_s: float | None,
    *,
    context: int = 0,
    prompt: int = 0,
    is_clean: bool = True,
) -> StepSample:
    return StepSample(
        num_requests=num_requests,
        requested_draft_length=length,
        drafted=(),
        accepted=(),
        verified_draft_tokens=verified,
        draft_length=length,
        prefill_tokens=prompt,
        context_tokens=context,
        duration_s=duration_s,
        is_clean=is_clean,
    )


def true_s(n: int, verified: float, length: int) -> float:
    return 0.020 + 0.001 * n + 0.0008 * verified + 0.0015 * length + 0.0001 * n * length


def test_nothing_is_predicted_before_the_first_clean_step() -> None:
    """Steps that are not clean, or have no duration, teach nothing."""
    model = CostModel()
    model.observe(step(1, 0, 0, 5.0, is_clean=False))
    model.observe(step(1, 0, 0, None))
    assert not model.is_ready
    assert model.predict_s(1, 0, 0, 0) == 0.0


def test_the_first_step_sets_the_scale() -> None:
    """One step of 30 ms: that shape is predicted at 30 ms, a longer one at more."""
    model = CostModel()
    model.observe(step(4, 8, 2, 0.030))
    assert model.predict_s(4, 8, 0, 2) == pytest.approx(0.030, rel=0.02)
    assert model.predict_s(4, 16, 0, 4) > model.predict_s(4, 8, 0, 2) > model.predict_s(4, 0, 0, 0)


def test_lengths_never_tried_are_predicted() -> None:
    """Seen at 0, 1 and 4, with 5 % noise; 2 and 6 come out within 6 %."""
    draw = random.Random(0)
    model = CostModel()
    for _ in range(150):
        length = draw.choice([0, 1, 4])
        duration_s = true_s(8, 8 * length, length) * draw.lognormvariate(0, 0.05)
        model.observe(step(8, 8 * length, length, duration_s))
    for length in (2, 6):
        assert model.predict_s(8, 8 * length, 0, length) == pytest.approx(
            true_s(8, 8 * length, length), rel=0.06
        )


def test_a_length_left_long_ago_keeps_its_price() -> None:
    """1000 steps at length 3 do not wash out what was seen at length 0."""
    draw = random.Random(1)
    model = CostModel()
    for length in (0,) * 30 + (3,) * 1000:
        duration_s = true_s(4, 4 * length, length) * draw.lognormvariate(0, 0.05)
        model.observe(step(4, 4 * length, length, duration_s))
    assert model.predict_s(4, 0, 0, 0) == pytest.approx(true_s(4, 0, 0), rel=0.05)


def test_a_stall_moves_little() -> None:
    """One step fifty times as long: the prediction stays within 10 %."""
    model = CostModel()
    for _ in range(60):
        model.observe(step(4, 8, 2, true_s(4, 8, 2)))
    model.observe(step(4, 8, 2, 50 * true_s(4, 8, 2)))
    assert model.predict_s(4, 8, 0, 2) == pytest.approx(true_s(4, 8, 2), rel=0.10)


def test_a_lasting_change_gets_through() -> None:
    """The machine becomes half as fast: within 60 steps the prediction is within 15 %."""
    model = CostModel()
    for factor in (1,) * 100 + (2,) * 60:
        model.observe(step(4, 8, 2, factor * true_s(4, 8, 2)))
    assert model.predict_s(4, 8, 0, 2) == pytest.approx(2 * true_s(4, 8, 2), rel=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_more_work_never_costs_less(seed: int) -> None:
    """Durations without rhyme or reason: coefficients stay non-negative, predictions monotone."""
    draw = random.Random(seed)
    model = CostModel()
    for _ in range(300):
        n, length = draw.randint(1, 64), draw.randint(0, 8)
        model.observe(step(n, n * length, length, draw.uniform(0.001, 0.1)))
    predicted = [model.predict_s(8, 8 * length, 0, length) for length in range(9)]
    assert predicted == sorted(predicted)
    assert model.predict_s(9, 8, 0, 1) >= model.predict_s(8, 8, 0, 1) > 0


def test_the_number_of_shapes_is_bounded() -> None:
    """Ten thousand different steps keep no more cells than the bound."""
    draw = random.Random(3)
    model = CostModel()
    for _ in range(3000):
        n, length = draw.randint(1, 4000), draw.randint(0, 30)
        model.observe(step(n, draw.randint(0, n * 30), length, true_s(n, 0, length)))
    assert len(list(model._fit.shapes)) <= 192


def test_verifying_anything_at_all_has_a_price_of_its_own() -> None:
    """10 ms plain, 13 ms with any draft and 0.1 ms for each token of it, as with n-gram drafts.

    Four steps in ten find something to verify, ten tokens then: 10 + 0.4 * 3 + 4 * 0.1 ms.
    """
    model = CostModel()
    for turn in range(200):
        verified = 10 if turn % 10 < 4 else 0
        seconds = 0.010 + (0.003 + 0.0001 * verified if verified else 0.0)
        model.observe(step(8, verified, 4, seconds))
    assert model.predict_s(8, 0, 0, 4) == pytest.approx(0.010, rel=0.01)
    assert model.predict_s(8, 10, 0, 4) == pytest.approx(0.014, rel=0.01)
    expected = model.predict_s(8, 4.0, 0, 4, verifying_fraction=0.4)
    assert expected == pytest.approx(0.0116, rel=0.03)


def test_the_first_use_of_a_shape_is_forgotten_at_once() -> None:
    """30 ms the first time, 7 ms from then on: the second sample sets it right."""
    model = CostModel()
    for length, seconds in ((0, 0.004), (0, 0.004), (4, 0.030), (4, 0.007), (4, 0.007)):
        model.observe(step(1, length, length, seconds))
    assert model.predict_s(1, 4, 0, 4) == pytest.approx(0.007, rel=0.05)


def gpu_s(n: int, verified: int, length: int, prompt: int = 0) -> float:
    """A GPU with a draft model that keeps up: reading the weights takes 4 ms, 165 tokens' time."""
    tokens = n + verified + prompt
    return 0.0015 + max(0.004, 24e-6 * tokens) + 0.0006 * max(length, 1)


def test_loads_of_many_requests_separate_passes_from_tokens() -> None:
    """Every length seen at one request, where passes and tokens grow alike; 256 at length 0 only.

    Attributed to tokens, a pass at one request would cost 256 times as much: 150 ms for length 1.
    """
    model = CostModel()
    for turn in range(200):
        length = turn % 9
        model.observe(step(1, length, length, gpu_s(1, length, length)))
    for _ in range(50):
        model.observe(step(256, 0, 0, gpu_s(256, 0, 0)))
    assert model.predict_s(256, 0, 0, 0) == pytest.approx(gpu_s(256, 0, 0), rel=0.05)
    assert model.predict_s(256, 256, 0, 1) == pytest.approx(gpu_s(256, 256, 1), rel=0.35)


def test_prompts_teach_what_verifying_many_tokens_takes() -> None:
    """32 requests were seen at lengths 0 and 2, where tokens are free; prompts were long.

    Length 8 verifies 256 tokens, 123 of them beyond what reading the weights takes: 13.2 ms.
    Continued in a straight line it would be 10.3 ms.
    """
    model = CostModel()
    for turn in range(300):
        length = 2 * (turn % 2)
        prompt = (0, 0, 0, 60, 200, 500, 2000, 8000)[turn // 2 % 8]
        seconds = gpu_s(32, 32 * length, length, prompt)
        model.observe(step(32, 32 * length, length, seconds, prompt=prompt))
    assert model.predict_s(32, 256, 0, 8) == pytest.approx(gpu_s(32, 256, 8), rel=0.16)
    assert model.predict_s(32, 64, 0, 2) == pytest.approx(gpu_s(32, 64, 2), rel=0.05)


def test_prompt_tokens_may_cost_less_than_others() -> None:
    """As on CPUs, where long rows multiply better: 0.3 ms a prompt token, 0.8 ms a draft token."""
    model = CostModel()
    for turn in range(300):
        length, prompt = 2 * (turn % 2), (0, 0, 0, 100, 500, 2000)[turn // 2 % 6]
        seconds = true_s(8, 8 * length, length) + 0.0003 * prompt
        model.observe(step(8, 8 * length, length, seconds, prompt=prompt))
    assert model.predict_s(8, 32, 0, 4) == pytest.approx(true_s(8, 32, 4), rel=0.06)


def test_the_first_draft_token_may_be_free() -> None:
    """A draft model that keeps up has computed it anyway: length 1 costs what length 0 does."""
    model = CostModel()
    for turn in range(120):
        length = (0, 1, 4)[turn % 3]
        seconds = 0.005 + 0.001 * max(length, 1)
        model.observe(step(4, 4 * length, length, seconds))
    assert model.predict_s(4, 4, 0, 1) == pytest.approx(0.006, rel=0.03)
    assert model.predict_s(4, 0, 0, 0) == pytest.approx(0.006, rel=0.03)
    assert model.predict_s(4, 12, 0, 3) == pytest.approx(0.008, rel=0.05)


def test_rebuilding_the_sums_changes_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights grow with every step; brought back to 1 every few dozen steps, or never."""
    predictions = []
    for max_weight in (1.02, 1e6):
        monkeypatch.setattr(cell_regression, "_MAX_WEIGHT", max_weight)
        draw, model = random.Random(3), CostModel()
        for _ in range(400):
            length = draw.choice([0, 1, 4])
            duration_s = true_s(8, 8 * length, length) * draw.lognormvariate(0, 0.05)
            model.observe(step(8, 8 * length, length, duration_s, prompt=draw.choice([0, 0, 50])))
        predictions.append([model.predict_s(8, 8 * k, 0, k) for k in range(5)])
    assert predictions[0] == pytest.approx(predictions[1], rel=1e-6)


def test_a_length_seen_only_beside_a_long_prompt_is_not_measured() -> None:
    model = CostModel()
    model.observe(step(8, 0, 0, true_s(8, 0, 0)))
    model.observe(step(8, 16, 2, 1.5, prompt=8000))
    assert model.is_measured(8, 0)
    assert not model.is_measured(8, 2)


def test_shapes_with_prompts_do_not_drive_out_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One decode shape, then more shapes with prompts than there is room for."""
    monkeypatch.setattr(cell_regression, "_MAX_CELLS", 6)
    model = CostModel()
    model.observe(step(8, 0, 0, true_s(8, 0, 0)))
    for doubling in range(12):
        model.observe(step(8, 0, 0, 0.1 + 0.001 * 2**doubling, prompt=2**doubling))
    assert model.is_measured(8, 0)


def learned_at_three_lengths(seed: int = 0) -> CostModel:
    """40 steps each at lengths 0, 2 and 4, with 3 % noise."""
    draw, model = random.Random(seed), CostModel()
    for turn in range(120):
        length = (0, 2, 4)[turn % 3]
        duration_s = true_s(8, 8 * length, length) * draw.lognormvariate(0, 0.03)
        model.observe(step(8, 8 * length, length, duration_s))
    return model


def test_a_slower_machine_makes_lengths_not_in_use_slower_too() -> None:
    """Everything takes twice as long, and only length 2 is used: after eight steps the predictions
    for 0 and 4 have doubled as well."""
    model = learned_at_three_lengths()
    before = [model.predict_s(8, 8 * length, 0, length) for length in (0, 2, 4)]
    for _ in range(8):
        model.observe(step(8, 16, 2, 2 * true_s(8, 16, 2)))
    after = [model.predict_s(8, 8 * length, 0, length) for length in (0, 2, 4)]
    assert after == pytest.approx([2 * seconds for seconds in before], rel=0.06)


def test_a_machine_that_recovers_leaves_the_proportions_as_they_were() -> None:
    """Twice as long for 500 steps at length 2, then 8 steps as before."""
    model = learned_at_three_lengths()
    for factor in (2,) * 500 + (1,) * 8:
        model.observe(step(8, 16, 2, factor * true_s(8, 16, 2)))
    for length in (0, 2, 4):
        expected = pytest.approx(true_s(8, 8 * length, length), rel=0.06)
        assert model.predict_s(8, 8 * length, 0, length) == expected


def test_a_single_slow_step_makes_no_length_slower() -> None:
    model = learned_at_three_lengths()
    before = [model.predict_s(8, 8 * length, 0, length) for length in (0, 2, 4)]
    model.observe(step(8, 16, 2, 5 * true_s(8, 16, 2)))
    after = [model.predict_s(8, 8 * length, 0, length) for length in (0, 2, 4)]
    assert after == pytest.approx(before, rel=0.01)


def test_one_length_that_becomes_slower_is_learned_as_such() -> None:
    """In turn with others that stay as they are: the cost of length 4 alone rises by half."""
    model = learned_at_three_lengths()
    for turn in range(180):
        length = (0, 2, 4)[turn % 3]
        factor = 1.5 if length == 4 else 1.0
        model.observe(step(8, 8 * length, length, factor * true_s(8, 8 * length, length)))
    assert model.predict_s(8, 0, 0, 0) == pytest.approx(true_s(8, 0, 0), rel=0.1)
    assert model.predict_s(8, 32, 0, 4) == pytest.approx(1.5 * true_s(8, 32, 4), rel=0.1)


def test_the_first_uses_of_a_shape_are_no_slow_machine() -> None:
    """Length 4 is used for the first time and takes ten times as long for three steps."""
    model = CostModel()
    for _ in range(60):
        model.observe(step(8, 0, 0, true_s(8, 0, 0)))
    for _ in range(3):
        model.observe(step(8, 32, 4, 10 * true_s(8, 32, 4)))
    assert model.predict_s(8, 0, 0, 0) == pytest.approx(true_s(8, 0, 0), rel=0.05)


def test_a_cold_first_step_does_not_set_the_scale_for_ever() -> None:
    """The first step takes twenty times as long. The prior of a draft pass, which steps at length 0
    say nothing about, is then that of the steps that follow."""
    cold, warm = CostModel(), CostModel()
    cold.observe(step(8, 0, 0, 20 * true_s(8, 0, 0)))
    for _ in range(30):
        cold.observe(step(8, 0, 0, true_s(8, 0, 0)))
        warm.observe(step(8, 0, 0, true_s(8, 0, 0)))
    for length in (1, 4):
        expected = pytest.approx(warm.predict_s(8, 8 * length, 0, length), rel=0.05)
        assert cold.predict_s(8, 8 * length, 0, length) == expected


def test_an_engine_that_always_prefills_is_learned_from() -> None:
    """Every step has prompt tokens; after nine of them there is a prediction."""
    model = CostModel()
    for _ in range(9):
        model.observe(step(8, 16, 2, true_s(8, 16, 2) + 0.0003 * 50, prompt=50))
    assert model.is_ready
    assert model.is_measured(8, 2)
