"""The distribution of sampled answers whose drafts end early and are verified in part.

Each verdict can be right while the distribution is wrong: where a draft token is dropped for what
it is, the target draws the next token more often than it should. So the answers are tested, by the
G-test of `losslessness.sampling`; `test_verdicts.py` has the verdicts.
"""

from __future__ import annotations

import pytest
from losslessness.checks import SamplingCase, compare, draw, draw_until_rejected, raw_logprobs
from losslessness.engine_host import EngineHost
from losslessness.sampling import by_prefix
from losslessness.telling_prompts import bundled_pair, contested_prompt

pytestmark = pytest.mark.engine

NUM_SAMPLES = 1_600
CONTESTED_RULES = [3, 5]
"""Their prices lie between the chances of tokens that the draft model draws after the prompt."""
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
