"""Sampled output of the real engine against the target's exact distribution.

6,000 continuations of one prompt, judged from outside the engine by the G-test of
`losslessness.sampling`. `test_verdicts.py` finds smaller faults with fewer samples, from inside.
The engine's random seed is fixed, so a p-value does not change from run to run on one machine.
"""

from __future__ import annotations

import pytest
from losslessness.checks import SamplingCase, compare, draw, raw_logprobs
from losslessness.engine_host import EngineHost
from losslessness.sampling import by_prefix
from losslessness.telling_prompts import bundled_pair, contested_prompt

pytestmark = [pytest.mark.engine, pytest.mark.slow]

NUM_SAMPLES = 6_000
PASSES = 1e-3
FAILS = 1e-6
FIXED_THREE = {"policy": "fixed", "draft_length": 3}


@pytest.mark.parametrize(("drafts", "temperature"), [("greedy", 0.7), ("probabilistic", 1.0)])
def test_sampled_output_has_the_targets_distribution(drafts: str, temperature: float) -> None:
    """Top-p 0.9, top-k 20, three drafts per step, with the prompt that exposes an injected bias.

    The same samples are rejected against temperatures 25 % lower and 33 % higher.
    """
    sampling = SamplingCase(temperature)
    with EngineHost(bundled_pair(draft_sample_method=drafts), policy=FIXED_THREE) as engine:
        prompt = contested_prompt(engine, sampling)
        outputs = draw(engine, prompt, sampling, num_samples=NUM_SAMPLES)
        prefixes = list(by_prefix(outputs, first_position=1, min_samples=60))
        logprobs = raw_logprobs(engine, prompt, prefixes)
        state = engine.state()
    result = compare(outputs, logprobs, sampling)
    assert result.num_samples > NUM_SAMPLES / 2
    assert result.p_value > PASSES, result
    for wrong in (temperature * 0.75, temperature / 0.75):
        assert compare(outputs, logprobs, SamplingCase(wrong)).p_value < FAILS
    assert state["accepted_tokens_total"] > 0
    assert state["sampled_speculation"] == "on"
