"""Sampled output of the real engine against the target's exact distribution.

1500 continuations of one prompt each; see `losslessness.sampling` for the test. The engine's
random seed is fixed, so a p-value does not change from run to run on one machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import pytest
from losslessness.checks import Sampling, check_sampling, compare, draw, raw_logprobs
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from losslessness.sampling import by_prefix

from paceline.demo import draft_path, target_path

pytestmark = pytest.mark.engine

NUM_SAMPLES = 1500
PASSES = 1e-3
FAILS = 1e-6

FIXED_THREE = {"policy": "fixed", "draft_length": 3}


def llm(**speculative: Any) -> dict[str, Any]:
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 32,
        "speculative_config": {
            "method": "draft_model",
            "model": str(draft_path()),
            "num_speculative_tokens": 3,
            **speculative,
        },
    }


def prompt_for(engine: EngineHost) -> list[int]:
    """A prompt after which the first token is neither certain nor anything at all.

    Its length is a whole cache block (128 tokens on CPU) and a few tokens, so it is computed once
    and then found in the cache. Of a dozen ends the one with about 1 nat of entropy is taken: then
    few prefixes share the samples, and each has enough of them.
    """
    tokens = [token for piece in engine.tokenize(stdlib_prompts(4)) for token in piece]
    candidates = [tokens[:length] for length in range(130, 146)]
    answers = engine.generate(candidates, temperature=0.0, max_tokens=1, logprobs=20)
    entropies = [_entropy(answer["logprobs"][0].values()) for answer in answers]
    nearest = min(range(len(candidates)), key=lambda index: abs(entropies[index] - 1.0))
    return candidates[nearest]


def contested_prompt(engine: EngineHost, sampling: Sampling) -> list[int]:
    """A prompt with a likely first token, and after it a token whose share is near a half.

    The first token is the prompt's and never drafted; the second is. There a threshold that is off
    by a little shifts the output most, and nearly every sample is evidence.
    """
    tokens = [token for piece in engine.tokenize(stdlib_prompts(4)) for token in piece]
    candidates = [tokens[:length] for length in range(130, 210)]
    answers = engine.generate(candidates, temperature=0.0, max_tokens=2, logprobs=20)

    def evidence(answer: dict[str, Any]) -> float:
        first, second = (
            max(sampling.distribution(logprobs).values()) for logprobs in answer["logprobs"]
        )
        return first * min(second, 1.0 - second)

    best = max(range(len(candidates)), key=lambda index: evidence(answers[index]))
    return candidates[best]


def _entropy(top_logprobs: Collection[float]) -> float:
    """Nats, with what the top 20 leave spread evenly over a vocabulary of 4,096."""
    rest = max(1.0 - sum(map(math.exp, top_logprobs)), 1e-9)
    return -sum(x * math.exp(x) for x in top_logprobs) - rest * math.log(rest / 4096)


@pytest.mark.parametrize("drafts", ["greedy", "probabilistic"])
def test_sampled_output_has_the_targets_distribution(drafts: str) -> None:
    """Temperature 0.7 and 1, top-p 0.9, top-k 20, three drafts per step, after the prompt on which
    the planted bias is caught.

    The same samples against temperatures a quarter off are rejected: the test could have failed.
    """
    with EngineHost(llm(draft_sample_method=drafts), policy=FIXED_THREE) as engine:
        for temperature in (0.7, 1.0):
            sampling = Sampling(temperature)
            prompt = contested_prompt(engine, sampling)
            outputs = draw(engine, prompt, sampling, num_samples=NUM_SAMPLES)
            prefixes = list(by_prefix(outputs, first_position=1, min_samples=60))
            logprobs = raw_logprobs(engine, prompt, prefixes)
            result = compare(outputs, logprobs, sampling)
            assert result.num_samples > NUM_SAMPLES / 2
            assert result.p_value > PASSES, result
            for wrong in (temperature * 0.75, temperature / 0.75):
                assert compare(outputs, logprobs, Sampling(wrong)).p_value < FAILS
        state = engine.state()
        assert state["accepted_tokens_total"] > 0
        assert state["sampled_speculation"] == "on"


def test_stock_vllm_fails_the_same_test() -> None:
    """Without the plugin (VLLM_PLUGINS=""), vLLM #55005: no distribution but the target's."""
    with EngineHost(llm(), plugins="") as engine:
        sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0)
        result = check_sampling(engine, prompt_for(engine), sampling, num_samples=NUM_SAMPLES)
        assert result.num_samples > NUM_SAMPLES / 10
        assert result.p_value < FAILS, result


def test_a_planted_bias_is_caught() -> None:
    """Acceptance thresholds 15 % too low: the drafts' tokens come too often."""
    sampling = Sampling(0.7)
    with EngineHost(
        llm(), policy=FIXED_THREE, fault="losslessness.faults:bias_acceptance"
    ) as engine:
        prompt = contested_prompt(engine, sampling)
        result = check_sampling(engine, prompt, sampling, num_samples=NUM_SAMPLES)
    assert result.p_value < FAILS, result


def test_without_the_repair_sampled_requests_are_not_speculated() -> None:
    """AdaptiveScheduler, plugin barred: no drafts beside a sampled request, none for it either.

    Greedy requests by themselves still have theirs.
    """
    with EngineHost(llm(), policy=FIXED_THREE, plugins="") as engine:
        prompt = prompt_for(engine)
        assert engine.state()["sampled_speculation"].startswith("off: ")
        result = check_sampling(engine, prompt, Sampling(1.0), num_samples=600)
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
