"""The distribution of sampled answers whose drafts end early and are verified in part.

Each verdict can be right while the distribution is wrong: where a draft token is dropped for what
it is, the target draws the next token more often than it should. So the answers are tested, by the
G-test of `losslessness.sampling`; `test_verdicts.py` has the verdicts.
"""

from __future__ import annotations

import pytest
from losslessness.checks import SamplingCase, compare, draw, draw_until_rejected, raw_logprobs
from losslessness.engine_host import EngineHost
from losslessness.sampling import GTest, by_prefix
from losslessness.telling_prompts import bundled_pair, contested_prompt

pytestmark = pytest.mark.engine

NUM_SAMPLES = 1_600
CONTESTED_RULES = [3, 5]
"""Their prices lie between the chances of tokens that the draft model draws after the prompt."""
KEEPING_RULES = [1, 3, 5]
"""They verify most first tokens, and end drafts at different lengths."""
BIAS = 0.05
SAMPLES_FOR_BIAS = 10_000
"""Of the sound engine; a biased one draws until it is found, twice as many at most. G then exceeds
its degrees of freedom, 120 or fewer, by 180 or more (0.009 to 0.012 per sample, measured); 85 are
enough, and chance moves it by 31."""
SHARE_FOR_BIAS = 0.75
SHARPENED = 2.0
PASSES = 1e-3
FAILS = 1e-6


def test_answers_have_the_targets_distribution_and_a_planted_fault_is_found() -> None:
    """The fault judges a token by its own probability instead of the largest one."""
    sampling = SamplingCase(temperature=1.0)
    with EngineHost(
        bundled_pair(draft_sample_method="probabilistic"),
        policy={"policy": "fixed"},
        fault="losslessness.early_stops:vary_rules",
    ) as engine:
        engine.call("losslessness.early_stops:keep_rules", CONTESTED_RULES)
        prompt = contested_prompt(engine, sampling)
        outputs = draw(engine, prompt, sampling, num_samples=NUM_SAMPLES)
        prefixes = list(by_prefix(outputs, first_position=1, min_samples=60))
        result = compare(outputs, raw_logprobs(engine, prompt, prefixes), sampling)
        steps = engine.call("losslessness.early_stops:take_steps")
        engine.call("losslessness.early_stops:judge_by_drawn_token")
        wrong = draw_until_rejected(
            engine,
            prompt,
            sampling,
            below=FAILS,
            batch=NUM_SAMPLES // 2,
            max_samples=2 * NUM_SAMPLES,
        )
        state = engine.state()
    assert result.num_samples > NUM_SAMPLES / 2
    assert result.p_value > PASSES, result
    assert wrong.p_value < FAILS, wrong
    assert sum(step["accepted"] != [] for step in steps) > 50
    assert state["policy_errors_total"] == 0


@pytest.mark.slow
def test_a_bias_of_5_percent_is_found_in_the_answers_and_the_sound_engine_passes() -> None:
    """Acceptance thresholds that are too low, and too high.

    The draft model is sharpened, which rejection sampling makes good, so that more of its tokens
    depend on the threshold.
    """
    sampling = SamplingCase(temperature=1.0)
    with EngineHost(
        bundled_pair(draft_sample_method="probabilistic"),
        policy={"policy": "fixed"},
        fault="losslessness.early_stops:vary_rules",
    ) as engine:
        engine.call("losslessness.early_stops:keep_rules", KEEPING_RULES)
        engine.call("losslessness.early_stops:sharpen_drafts", SHARPENED)
        prompt = contested_prompt(engine, sampling, share=SHARE_FOR_BIAS)

        def test(max_samples: int) -> GTest:
            return draw_until_rejected(
                engine,
                prompt,
                sampling,
                below=FAILS,
                batch=SAMPLES_FOR_BIAS // 4,
                max_samples=max_samples,
                min_samples=SAMPLES_FOR_BIAS // 20,
            )

        right = test(SAMPLES_FOR_BIAS)
        steps = engine.call("losslessness.early_stops:take_steps")
        wrong = {}
        for factor in (1.0 - BIAS, 1.0 + BIAS):
            engine.call("losslessness.verdicts.faults:scale_thresholds", factor)
            wrong[factor] = test(2 * SAMPLES_FOR_BIAS)
            engine.call("losslessness.verdicts.faults:restore")
    assert right.num_samples > SAMPLES_FOR_BIAS / 2
    assert right.p_value > PASSES, right
    assert all(result.p_value < FAILS for result in wrong.values()), wrong
    assert len({step["draft_length"] for step in steps}) > 3
