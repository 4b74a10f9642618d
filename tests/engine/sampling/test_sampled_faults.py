"""Sampling without Paceline's fixes: stock vLLM is wrong, AdaptiveScheduler then avoids it.

The G-test needs nothing inside the engine, so it runs on one without the plugin.
"""

from __future__ import annotations

import pytest
from losslessness.checks import SamplingCase, check_sampling, draw_until_rejected
from losslessness.engine_host import EngineHost
from losslessness.telling_prompts import bundled_pair, prompt_for

pytestmark = pytest.mark.engine

BATCH = 300
MAX_SAMPLES = 600
PASSES = 1e-3
FAILS = 1e-6
FIXED_THREE = {"policy": "fixed", "draft_length": 3}


@pytest.mark.slow
def test_stock_vllm_fails_the_same_test() -> None:
    """Without the plugin (VLLM_PLUGINS=""), vLLM #55005: no distribution but the target's.

    `in_process/test_cpu_sampler.py` finds the same fault in the sampler alone.
    """
    sampling = SamplingCase(temperature=1.0, top_k=0, top_p=1.0)
    with EngineHost(bundled_pair(), plugins="") as engine:
        result = draw_until_rejected(
            engine,
            prompt_for(engine),
            sampling,
            below=FAILS,
            batch=BATCH,
            max_samples=MAX_SAMPLES,
        )
    assert result.p_value < FAILS, result


def test_without_the_fix_sampled_requests_are_not_speculated() -> None:
    """AdaptiveScheduler without the plugin: a sampled request turns drafts off for the whole batch.

    Greedy requests without a sampled one in the batch are still drafted for.
    """
    with EngineHost(bundled_pair(), policy=FIXED_THREE, plugins="") as engine:
        prompt = prompt_for(engine)
        assert engine.state()["sampled_speculation"].startswith("off: ")
        result = check_sampling(engine, prompt, SamplingCase(1.0), num_samples=BATCH)
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
