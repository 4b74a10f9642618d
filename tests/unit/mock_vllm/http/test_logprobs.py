"""Log-probabilities of completions, of prompts with `echo`, and sampling faults over HTTP."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paceline.testing.mock_vllm import Fault, FaultKind, expected_answer
from unit.mock_vllm.faults.faulty_server import BODY, serving

BEST = math.log(1 / sum(math.exp(-rank / 2) for rank in range(8)))
"""Of the candidate of rank 0."""


async def choice_of(*faults: Fault, **fields: Any) -> dict[str, Any]:
    async with serving(*faults) as http:
        answer = await http.post("/v1/completions", json={**BODY, "max_tokens": 3, **fields})
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


async def test_greedy_tokens_have_the_best_log_probability() -> None:
    choice = await choice_of(logprobs=2, return_tokens_as_token_ids=True)
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert logprobs["token_logprobs"] == pytest.approx([BEST] * 3)
    for top, token in zip(logprobs["top_logprobs"], logprobs["tokens"], strict=True):
        assert list(top.values()) == pytest.approx([BEST, BEST - 0.5])
        assert next(iter(top)) == token


async def test_echo_scores_the_prompt_as_the_answer_scored_it() -> None:
    answer = await choice_of(logprobs=3, return_tokens_as_token_ids=True)
    whole = [*b"abc", *answer["token_ids"]]
    echoed = await choice_of(
        prompt=whole, max_tokens=1, logprobs=3, echo=True, return_tokens_as_token_ids=True
    )
    assert len(echoed["logprobs"]["tokens"]) == len(whole) + 1
    assert echoed["logprobs"]["top_logprobs"][0] is None
    assert echoed["logprobs"]["top_logprobs"][3:6] == answer["logprobs"]["top_logprobs"]


async def test_without_the_field_there_are_none() -> None:
    assert (await choice_of())["logprobs"] is None


async def test_a_sampling_fault_changes_the_tokens_and_nothing_else() -> None:
    choice = await choice_of(Fault(FaultKind.ARGMAX_FLIP))
    right = expected_answer(b"abc", 3, eos_every_tokens=0)
    assert len(choice["token_ids"]) == 3
    assert choice["token_ids"][0] == right.ids[0]
    assert choice["token_ids"][1] != right.ids[1]


def test_sampling_faults_concern_whole_answers() -> None:
    with pytest.raises(ValueError, match="must not have after_tokens"):
        Fault(FaultKind.ACCEPT_ALL, after_tokens=3)
    with pytest.raises(ValueError, match="share must be above 0"):
        Fault(FaultKind.ACCEPT_ALL, share=0.0)
