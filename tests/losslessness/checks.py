"""Draw output from a running engine and test it against the target's own probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from losslessness.engine_host import EngineHost
from losslessness.sampling import GTest, Prefix, by_prefix, g_test, processed_distribution
from paceline.workbench.audit.statistics.greedy import GreedyVerdict, judge_greedy


@dataclass(frozen=True, slots=True)
class SamplingCase:
    """The sampling parameters of a request."""

    temperature: float
    top_k: int = 20
    top_p: float = 0.9

    def arguments(self) -> dict[str, float | int]:
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}

    def distribution(self, logprobs: Mapping[int, float]) -> dict[int, float]:
        """The distribution sampled from, given the target's best raw log-probabilities."""
        return processed_distribution(
            logprobs, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p
        )


def teacher_force(
    engine: EngineHost,
    prompts: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    *,
    near_tie_nats: float,
) -> list[GreedyVerdict]:
    """Judge greedy outputs by the target's prompt log-probabilities, which need no drafts."""
    forced = engine.generate(
        [[*prompt, *output] for prompt, output in zip(prompts, outputs, strict=True)],
        temperature=0.0,
        max_tokens=1,
        prompt_logprobs=1,
    )
    return [
        judge_greedy(output, answer["prompt_logprobs"][len(prompt) :], near_tie_nats=near_tie_nats)
        for prompt, output, answer in zip(prompts, outputs, forced, strict=True)
    ]


def draw(
    engine: EngineHost, prompt: Sequence[int], sampling: SamplingCase, *, num_samples: int
) -> list[list[int]]:
    """Sampled continuations of one prompt, four tokens each; the last three may be drafted."""
    outputs = engine.generate(
        [prompt] * num_samples, max_tokens=4, ignore_eos=True, **sampling.arguments()
    )
    return [output["token_ids"] for output in outputs]


def raw_logprobs(
    engine: EngineHost, prompt: Sequence[int], prefixes: Sequence[Prefix]
) -> dict[Prefix, Mapping[int, float]]:
    """The target's 20 best log-probabilities after the prompt and each prefix."""
    answers = engine.generate(
        [[*prompt, *prefix] for prefix in prefixes], temperature=0.0, max_tokens=1, logprobs=20
    )
    return {prefix: answer["logprobs"][0] for prefix, answer in zip(prefixes, answers, strict=True)}


def compare(
    outputs: Sequence[Sequence[int]],
    logprobs: Mapping[Prefix, Mapping[int, float]],
    sampling: SamplingCase,
    *,
    min_samples: int = 60,
) -> GTest:
    """G-test of the drafted positions (all but the first) against the target's distribution."""
    groups = by_prefix(outputs, first_position=1, min_samples=min_samples)
    expected = {prefix: sampling.distribution(logprobs[prefix]) for prefix in groups}
    return g_test(groups, expected)


def check_sampling(
    engine: EngineHost,
    prompt: Sequence[int],
    sampling: SamplingCase,
    *,
    num_samples: int,
    reference: EngineHost | None = None,
) -> GTest:
    """Draw from `engine` and test against the target's distribution, computed by `reference`."""
    outputs = draw(engine, prompt, sampling, num_samples=num_samples)
    prefixes = list(by_prefix(outputs, first_position=1, min_samples=60))
    return compare(outputs, raw_logprobs(reference or engine, prompt, prefixes), sampling)


def draw_until_rejected(
    engine: EngineHost,
    prompt: Sequence[int],
    sampling: SamplingCase,
    *,
    below: float,
    batch: int,
    max_samples: int,
    min_samples: int = 60,
) -> GTest:
    """Draw batches until the p-value is below `below`; returns the last test.

    Prefixes with fewer than `min_samples` samples are left out. The false rejection rate of a right
    sampler is at most `below` times the number of batches.
    """
    outputs: list[list[int]] = []
    while True:
        outputs += draw(engine, prompt, sampling, num_samples=batch)
        prefixes = list(by_prefix(outputs, first_position=1, min_samples=min_samples))
        logprobs = raw_logprobs(engine, prompt, prefixes)
        result = compare(outputs, logprobs, sampling, min_samples=min_samples)
        if result.p_value < below or len(outputs) >= max_samples:
            return result
