"""Draw rounds of mixed requests from a running engine and collect its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from losslessness.engine_host import EngineHost
from losslessness.verdicts.evidence import Verdicts

MIX: tuple[Mapping[str, Any], ...] = (
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
    {"temperature": 1.0},
    {"temperature": 0.0},
    {"temperature": 0.5, "top_p": 0.95},
    {"temperature": 0.7, "top_k": 20},
)
"""Sampling parameters within one batch: greedy and sampled, with and without limits."""
_PER_ROUND = 3
"""Requests per prompt and round; the rounds go through `MIX`."""

FOUND_ABOVE = 1000.0
"""The e-value that finds a sampler wrong; a right one reaches it with probability 1/1000."""
SUITE_VERDICTS = 8_000
"""They find a bias of 5 % with probability 0.95."""
MAX_TOKENS = 64
RECORDER = "losslessness.verdicts.recorder"


def draw_round(
    engine: EngineHost, prompts: Sequence[Sequence[int]], *, number: int
) -> dict[str, Any]:
    """Every prompt three times with different parameters; returns the record of the round."""
    chosen = [MIX[(number * _PER_ROUND + i) % len(MIX)] for i in range(_PER_ROUND)]
    engine.generate(
        [prompt for prompt in prompts for _ in chosen],
        each=chosen * len(prompts),
        max_tokens=MAX_TOKENS,
        ignore_eos=True,
    )
    record: dict[str, Any] = engine.call(f"{RECORDER}:take")
    return record


def draw_until_found(
    engine: EngineHost,
    prompts: Sequence[Sequence[int]],
    *,
    num_verdicts: int = SUITE_VERDICTS,
) -> Verdicts:
    """Draw rounds until there are `num_verdicts`, or until the e-value exceeds `FOUND_ABOVE`.

    `recorder.install` must have been called in the engine.
    """
    verdicts, number = Verdicts(), 0
    engine.call(f"{RECORDER}:take")
    while len(verdicts.ratios) < num_verdicts:
        verdicts.add(draw_round(engine, prompts, number=number))
        number += 1
        if verdicts.evidence().e_value > FOUND_ABOVE:
            break
    return verdicts


def forced_logprob_errors(engine: EngineHost, requests: Sequence[Mapping[str, Any]]) -> list[float]:
    """Differences, in nats, between logits of recorded steps and those of one prefill.

    The tokens of a request are given to the same engine as a prompt: their log-probabilities are
    computed without drafts, decoding steps or the cache.
    """
    texts = [[*known["prompt_token_ids"], *known["token_ids"][:MAX_TOKENS]] for known in requests]
    forced = engine.generate(texts, temperature=0.0, max_tokens=1, prompt_logprobs=0)
    errors = []
    for known, answer in zip(requests, forced, strict=True):
        tokens = known["token_ids"][:MAX_TOKENS]
        positions = answer["prompt_logprobs"][-len(tokens) :]
        errors += [
            abs(positions[i][token_id] - known["logprobs"][i]) for i, token_id in enumerate(tokens)
        ]
    return errors
