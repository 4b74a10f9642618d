"""Greedy chats at a gateway, and how the answers of two servers compare.

Log-probabilities of the reference say whether two tokens are nearly equally likely. Rounding may
swap such tokens: batches and splits of another shape change the order of floating-point sums. What
follows the first difference is another text and is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from paceline.workbench.audit.statistics.greedy import first_difference

NUM_LOGPROBS = 5
_PREFIX = "token_id:"


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """One answer."""

    token_ids: tuple[int, ...]
    logprobs: tuple[Mapping[int, float], ...]
    """Of the `NUM_LOGPROBS` most likely tokens, at each of the positions."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer beside its reference."""

    num_equal: int
    """Tokens before the first difference."""
    differs: bool
    gap_nats: float | None = None
    """How much less likely than the reference's token the other one is, by the reference; None
    without a difference, and where the reference does not name the other token."""

    def is_near_tie(self, near_tie_nats: float) -> bool:
        """Whether rounding explains the difference."""
        return self.differs and self.gap_nats is not None and self.gap_nats <= near_tie_nats


def ask(
    url: str, model: str, prompts: Sequence[str], *, max_tokens: int, concurrency: int
) -> list[GreedyAnswer]:
    """The answers to chats with these prompts, in their order."""
    with (
        httpx.Client(base_url=url, timeout=None, trust_env=False) as client,
        ThreadPoolExecutor(concurrency) as threads,
    ):
        return list(threads.map(lambda prompt: _ask(client, model, prompt, max_tokens), prompts))


def _ask(client: httpx.Client, model: str, prompt: str, max_tokens: int) -> GreedyAnswer:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": NUM_LOGPROBS,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    response = client.post("/v1/chat/completions", json=body)
    response.raise_for_status()
    return read_answer(response.json()["choices"][0])


def read_answer(choice: Mapping[str, Any]) -> GreedyAnswer:
    """Read a choice whose tokens are named by their ids."""
    return GreedyAnswer(
        tuple(choice["token_ids"]),
        tuple(
            {int(one["token"].removeprefix(_PREFIX)): one["logprob"] for one in at["top_logprobs"]}
            for at in choice["logprobs"]["content"]
        ),
    )


def compare(reference: GreedyAnswer, answer: GreedyAnswer) -> Comparison:
    """Compare token by token; one that ends before the other differs, without a gap."""
    at = first_difference(reference.token_ids, answer.token_ids)
    if at is None:
        num_equal = min(len(reference.token_ids), len(answer.token_ids))
        return Comparison(num_equal, len(reference.token_ids) != len(answer.token_ids))
    known = reference.logprobs[at]
    other = known.get(answer.token_ids[at])
    return Comparison(at, True, None if other is None else max(known.values()) - other)
