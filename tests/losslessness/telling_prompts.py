"""After which prompts does a sampler that is wrong show itself, and in which engine?"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from losslessness.checks import SamplingCase
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from paceline.demo import draft_path, target_path


def bundled_pair(**speculative: Any) -> dict[str, Any]:
    """Settings of vLLM for the bundled pair, three drafts a step."""
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


def contested_prompt(engine: EngineHost, sampling: SamplingCase) -> list[int]:
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
