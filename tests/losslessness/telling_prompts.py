"""Engine settings and prompts that expose a wrong sampler with few samples."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from losslessness.checks import SamplingCase
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from paceline.demo import draft_path, target_path

_BLOCK_TOKENS = 128
"""A block of vLLM's prefix cache on CPUs. Every prompt here is the same block and two tokens more,
so a sample computes the two tokens and what it generates, instead of 130 tokens."""
_NUM_ENDS = 160


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
    """A prompt after which the first token is neither certain nor close to uniform.

    The prompt with about 1 nat of entropy is taken: then few prefixes share the samples, and each
    prefix has enough of them.
    """
    candidates = _candidates(engine)
    answers = engine.generate(candidates, temperature=0.0, max_tokens=1, logprobs=20)
    entropies = [_entropy(answer["logprobs"][0].values()) for answer in answers]
    nearest = min(range(len(candidates)), key=lambda index: abs(entropies[index] - 1.0))
    return candidates[nearest]


def contested_prompt(
    engine: EngineHost, sampling: SamplingCase, *, share: float = 0.5
) -> list[int]:
    """A prompt with a likely first token, and after it a token with about this share.

    The prompt's step yields the first token, which is never drafted; the second is, so that nearly
    every sample is evidence. Near a half, a token that is dropped for what it is shifts the output
    most; above, where the draft model is too sure, a wrong acceptance threshold does.
    """
    candidates = _candidates(engine)
    answers = engine.generate(candidates, temperature=0.0, max_tokens=2, logprobs=20)

    def evidence(answer: dict[str, Any]) -> float:
        first, second = (
            max(sampling.distribution(logprobs).values()) for logprobs in answer["logprobs"]
        )
        return first * (0.5 - abs(second - share))

    best = max(range(len(candidates)), key=lambda index: evidence(answers[index]))
    return candidates[best]


def _candidates(engine: EngineHost) -> list[list[int]]:
    """The same cache block of code, with different pairs of tokens after it."""
    tokens = [token for piece in engine.tokenize(stdlib_prompts(6)) for token in piece]
    block, rest = tokens[:_BLOCK_TOKENS], tokens[_BLOCK_TOKENS:]
    return [[*block, *rest[start : start + 2]] for start in range(_NUM_ENDS)]


def _entropy(top_logprobs: Collection[float]) -> float:
    """Nats; what the 20 best leave is taken as spread evenly over a vocabulary of 4,096."""
    rest = max(1.0 - sum(map(math.exp, top_logprobs)), 1e-9)
    return -sum(x * math.exp(x) for x in top_logprobs) - rest * math.log(rest / 4096)
