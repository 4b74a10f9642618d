"""Does the test of `test_sampled_losslessness.py` find a sampler that is wrong?"""

from __future__ import annotations

import pytest
from losslessness.checks import SamplingCase, check_sampling
from losslessness.engine_host import EngineHost
from losslessness.telling_prompts import bundled_pair, contested_prompt, prompt_for

pytestmark = pytest.mark.engine

NUM_SAMPLES = 1500
PASSES = 1e-3
FAILS = 1e-6
FIXED_THREE = {"policy": "fixed", "draft_length": 3}


def test_stock_vllm_fails_the_same_test() -> None:
    """Without the plugin (VLLM_PLUGINS=""), vLLM #55005: no distribution but the target's."""
    with EngineHost(bundled_pair(), plugins="") as engine:
        sampling = SamplingCase(temperature=1.0, top_k=0, top_p=1.0)
        result = check_sampling(engine, prompt_for(engine), sampling, num_samples=NUM_SAMPLES)
        assert result.num_samples > NUM_SAMPLES / 10
        assert result.p_value < FAILS, result


def test_a_planted_bias_is_caught() -> None:
    """Acceptance thresholds 15 % too low: the drafts' tokens come too often."""
    sampling = SamplingCase(0.7)
    with EngineHost(
        bundled_pair(), policy=FIXED_THREE, fault="losslessness.faults:bias_acceptance"
    ) as engine:
        prompt = contested_prompt(engine, sampling)
        result = check_sampling(engine, prompt, sampling, num_samples=NUM_SAMPLES)
    assert result.p_value < FAILS, result


def test_without_the_repair_sampled_requests_are_not_speculated() -> None:
    """AdaptiveScheduler, plugin barred: no drafts beside a sampled request, none for it either.

    Greedy requests by themselves still have theirs.
    """
    with EngineHost(bundled_pair(), policy=FIXED_THREE, plugins="") as engine:
        prompt = prompt_for(engine)
        assert engine.state()["sampled_speculation"].startswith("off: ")
        result = check_sampling(engine, prompt, SamplingCase(1.0), num_samples=600)
        assert result.p_value > PASSES, result
        mixed = engine.generate(
            [prompt] * 4,
            each=[{"temperature": t, "top_k": 20, "top_p": 0.9} for t in (0.0, 1.0, 0.0, 1.0)],
            max_tokens=16,
            ignore_eos=True,
        )
        assert [len(output["token_ids"]) for output in mixed] == [16] * 4
        assert engine.state()["drafted_tokens_total"] == 0
        engine.generate([prompt], temperature=0.0, max_tokens=16, ignore_eos=True)
        assert engine.state()["drafted_tokens_total"] > 0
