"""Draw rounds of mixed requests from a running engine and collect its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from losslessness.engine_host import EngineHost
from losslessness.verdicts.evidence import Verdicts

_WITHOUT_TOP_P: tuple[Mapping[str, Any], ...] = (
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 1.0},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 0.0},
)
_WITH_TOP_P: tuple[Mapping[str, Any], ...] = (
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
    {"temperature": 0.5, "top_p": 0.95},
    {"temperature": 0.0},
)
ROUNDS = (_WITHOUT_TOP_P, _WITHOUT_TOP_P, _WITH_TOP_P)
"""Sampling parameters of the rounds in turn: greedy and sampled requests in every batch.

A verdict finds most where the ratio is a little below 1. Top-k alone makes such ratios frequent.
Top-p makes most of them 1, and its sorting of the vocabulary takes a third of a step.
"""
WITH_TOP_P = 2
"""The number of a round with top-k, top-p and greedy requests."""
_PER_ROUND = 3
"""Requests per prompt and round."""

FOUND_ABOVE = 1000.0
"""The e-value that finds a sampler wrong; a right one reaches it with probability 1/1000."""
MAX_TOKENS = 64
RECORDER = "losslessness.verdicts.recorder"


def draw_round(
    engine: EngineHost, prompts: Sequence[Sequence[int]], *, number: int
) -> dict[str, Any]:
    """Every prompt three times with different parameters; returns the record of the round."""
    parameters = ROUNDS[number % len(ROUNDS)]
    requests = [prompt for prompt in prompts for _ in range(_PER_ROUND)]
    first = _PER_ROUND * number
    engine.generate(
        requests,
        each=[parameters[(first + i) % len(parameters)] for i in range(len(requests))],
        max_tokens=MAX_TOKENS,
        ignore_eos=True,
    )
    record: dict[str, Any] = engine.call(f"{RECORDER}:take")
    return record


def draw_until_found(
    engine: EngineHost,
    prompts: Sequence[Sequence[int]],
    *,
    num_verdicts: int,
    starts_small: bool = False,
) -> Verdicts:
    """Draw rounds until there are `num_verdicts`, or until the e-value exceeds `FOUND_ABOVE`.

    `recorder.install` must have been called in the engine. `starts_small`: the first rounds have a
    quarter and a half of the prompts, which is enough for a gross fault.
    """
    verdicts, number = Verdicts(), 0
    engine.call(f"{RECORDER}:take")
    while len(verdicts.ratios) < num_verdicts:
        num_parts = max(4 >> number, 1) if starts_small else 1
        verdicts.add(draw_round(engine, prompts[::num_parts], number=number))
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
