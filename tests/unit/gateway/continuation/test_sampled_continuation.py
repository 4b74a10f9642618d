"""Sampled streams that break off twice keep their distribution and all their parameters.

The mock server's probabilities are known at every token. Its streams end without `[DONE]` after 20
tokens, so the resume points, and with fixed seeds all tokens, are the same in every run.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.mock_vllm import Fault, FaultKind, MockVllm, MockVllmSettings, encode_text
from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams
from paceline.testing.mock_vllm.model.vocabulary import FIRST_WORD, NUM_WORDS
from unit.gateway.conftest import SETTINGS, FixedReplicas

pytestmark = pytest.mark.asyncio

MODEL, PROMPT = "m", "Once upon"
BREAKS_AFTER, NUM_TOKENS, NUM_STREAMS = 20, 55, 24
WORDS = list(range(FIRST_WORD, FIRST_WORD + NUM_WORDS))
"""With these alone, a stream never breaks inside a character, where sampled ids that the client has
received cannot be generated again."""
MOCK = MockVllmSettings(
    model=MODEL, tpot_ms=0.5, prefill_tokens_per_s=1e6, eos_every_tokens=0, max_model_len=512
)
CASES: dict[str, dict[str, Any]] = {
    "seed alone": {},
    "temperature": {"temperature": 0.4},
    "top_p": {"top_p": 0.6},
    "top_k": {"top_k": 3},
    "min_p": {"min_p": 0.4},
    "logit_bias": {"logit_bias": {str(word): 33 for word in WORDS[::10]}},
    "repetition_penalty": {"repetition_penalty": 4.0},
    "allowed_token_ids": {"allowed_token_ids": WORDS[::2]},
}


@dataclass
class Served:
    gateway: RunningGateway
    http: httpx.AsyncClient

    async def ids_of(self, **fields: Any) -> list[int]:
        """The token ids of a stream."""
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": NUM_TOKENS, "stream": True}
        answer = await self.http.post(
            "/v1/completions", json={**body, "return_token_ids": True, **fields}
        )
        assert answer.text.endswith("data: [DONE]\n\n"), answer.text[-300:]
        chunks = [json.loads(line[6:]) for line in answer.text.split("\n") if "data: {" in line]
        return [i for chunk in chunks for c in chunk["choices"] for i in c["token_ids"]]


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    fault = Fault(FaultKind.NO_DONE, after_tokens=BREAKS_AFTER)
    failures = FailureSettings(min_samples=100_000, replica_wait_s=5)
    async with MockVllm(MOCK, faults=[fault]) as one, MockVllm(MOCK, faults=[fault]) as two:
        replicas = [
            Replica(name, mock.url, MODEL, "ready", max_model_len=MOCK.max_model_len)
            for name, mock in (("one", one), ("two", two))
        ]
        settings = replace(SETTINGS, failures=failures)
        async with (
            serve_gateway(settings, FixedReplicas(replicas)) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
        ):
            yield Served(gateway, http)


@pytest.mark.parametrize("name", CASES)
async def test_resumed_tokens_have_the_distribution_of_an_unbroken_stream(name: str) -> None:
    fields: dict[str, Any] = {"allowed_token_ids": WORDS, **CASES[name]}
    async with served() as running:
        answers = await asyncio.gather(
            *(running.ids_of(seed=seed, **fields) for seed in range(NUM_STREAMS))
        )
    ranks: Counter[int] = Counter()
    expected: Counter[int] = Counter()
    for ids in answers:
        assert len(ids) == NUM_TOKENS
        for at in range(BREAKS_AFTER, NUM_TOKENS):
            tokens, probs = distribution_after(ids[:at], fields)
            assert ids[at] in tokens, f"token {at} cannot occur with {CASES[name]}"
            ranks[tokens.index(ids[at])] += 1
            expected.update(dict(enumerate(probs)))
    statistic, num_cells = chi_square(ranks, expected)
    assert statistic < chi_square_limit(num_cells)


def distribution_after(
    ids: Sequence[int], fields: dict[str, Any]
) -> tuple[list[int], tuple[float, ...]]:
    params = SamplingParams(
        max_tokens=1,
        seed=0,
        **{
            **fields,
            "allowed_token_ids": frozenset(fields["allowed_token_ids"]),
            "logit_bias": tuple(
                (int(token), bias) for token, bias in fields.get("logit_bias", {}).items()
            ),
        },
    )
    context = [*encode_text(PROMPT), *ids]
    return Sampler(context, params, eos_every_tokens=0).distribution()


def chi_square(found: Counter[int], expected: Counter[int]) -> tuple[float, int]:
    """The statistic and the number of its cells.

    The cells are the ranks that are expected at least 5 times, and all others together.
    """
    common = [rank for rank, num in expected.items() if num >= 5]
    pairs = [(found[rank], expected[rank]) for rank in common]
    rare = expected.total() - sum(num for _, num in pairs)
    if rare > 1:
        pairs.append((found.total() - sum(num for num, _ in pairs), rare))
    return sum((num - mean) ** 2 / mean for num, mean in pairs), len(pairs)


def chi_square_limit(num_cells: int) -> float:
    """Exceeded with a probability of about one in a million (Wilson and Hilferty)."""
    df = num_cells - 1
    return df * (1 - 2 / (9 * df) + 4.75 * (2 / (9 * df)) ** 0.5) ** 3


async def test_resumed_tokens_do_not_use_the_random_numbers_of_the_first_ones_again() -> None:
    """With the same numbers, all ranks would be the same."""
    fields: dict[str, Any] = {"allowed_token_ids": WORDS}
    num_same = num_compared = 0
    async with served() as running:
        for seed in range(4):
            ids = await running.ids_of(seed=seed, **fields)
            ranks = [distribution_after(ids[:at], fields)[0].index(ids[at]) for at in range(40)]
            num_same += sum(map(int.__eq__, ranks[:BREAKS_AFTER], ranks[BREAKS_AFTER:]))
            num_compared += BREAKS_AFTER
    assert 0.1 < num_same / num_compared < 0.5  # by chance: the sum of the squares, 0.26


async def test_every_parameter_reaches_the_replicas_that_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies: list[dict[str, Any]] = []
    post = Upstreams.post

    async def recording(self: Upstreams, replica: Any, path: str, body: bytes, *others: Any) -> Any:
        if path != "/detokenize":
            bodies.append(json.loads(body))
        return await post(self, replica, path, body, *others)

    monkeypatch.setattr(Upstreams, "post", recording)
    fields = {
        "allowed_token_ids": WORDS, "temperature": 0.75, "top_p": 0.875, "top_k": 9, "min_p": 0.01,
        "logit_bias": {str(WORDS[3]): -2.5}, "repetition_penalty": 1.25, "stop_token_ids": [300],
        "include_stop_str_in_output": True, "user": "u",
    }  # fmt: skip
    async with served() as running:
        ids = await running.ids_of(seed=3, min_tokens=50, **fields)
    first, second, third = bodies
    for body in bodies:
        assert {name: body[name] for name in fields} == fields
    assert second["prompt"] == [*encode_text(PROMPT), *ids[:20]]
    assert third["prompt"] == [*encode_text(PROMPT), *ids[:40]]
    assert [body["max_tokens"] for body in bodies] == [55, 35, 15]
    assert [body["min_tokens"] for body in bodies] == [50, 30, 10]
    assert len({first["seed"], second["seed"], third["seed"]}) == 3
