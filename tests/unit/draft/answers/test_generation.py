"""Answers of a batch equal those of each prompt alone, token by token without a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from paceline.foundation.models.answers.generation import generate_answers
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.values import EncodedPrompt, Sampling
from unit.draft.conftest import TinyPair

PROMPTS = tuple(
    EncodedPrompt(
        str(number), "c", tuple(4 + (number * step) % 90 for step in range(1, 2 + number)), 12
    )
    for number in range(1, 7)
)


@pytest.fixture(scope="module")
def target(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.float32, torch.device("cpu"))


def greedy_text(model: Any, prompt: EncodedPrompt, length: int) -> list[int]:
    ids = list(prompt.token_ids)
    with torch.inference_mode():
        for _ in range(length):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt.token_ids) :]


def test_greedy_answers_of_a_batch_are_those_of_single_prompts(target: Any) -> None:
    """Prompts of two to seven tokens; the limits differ, so rows leave the batch at times."""
    prompts = [
        replace(prompt, max_tokens=limit)
        for prompt, limit in zip(PROMPTS, (12, 2, 9, 3, 1, 12), strict=True)
    ]
    answers = generate_answers(
        target,
        prompts,
        Sampling(0.0),
        stop_ids=set(),
        num_after_end=3,
        seed=0,
        stop=StopRequest(),
    )
    for prompt, answer in zip(prompts, answers, strict=True):
        text = greedy_text(target, prompt, len(answer.token_ids))
        assert list(answer.token_ids) == text
        assert answer.num_tokens == prompt.max_tokens
        assert len(answer.token_ids) == answer.num_tokens + 3
        assert answer.key == prompt.key


def test_an_answer_ends_with_the_first_stop_token(target: Any) -> None:
    """The third token of the greedy text is declared a stop token."""
    text = greedy_text(target, PROMPTS[0], 12)
    stop = text[2]
    (answer,) = generate_answers(
        target,
        PROMPTS[:1],
        Sampling(0.0),
        stop_ids={stop},
        num_after_end=4,
        seed=0,
        stop=StopRequest(),
    )
    end = text.index(stop) + 1
    assert answer.num_tokens == end
    assert list(answer.token_ids) == text[: end + 4]


def test_sampled_answers_depend_on_the_seed_alone(target: Any) -> None:
    def sample(seed: int) -> list[tuple[int, ...]]:
        answers = generate_answers(
            target,
            PROMPTS,
            Sampling(1.0),
            stop_ids={1},
            num_after_end=2,
            seed=seed,
            stop=StopRequest(),
        )
        return [answer.token_ids for answer in answers]

    assert sample(1) == sample(1) != sample(2)
