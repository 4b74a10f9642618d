"""Answers that vLLM generates for `paceline draft train` are those of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from vllm.v1.engine.exceptions import EngineDeadError

from paceline.demo import target_path
from paceline.foundation.models.answers.engine_generation import (
    generate_in_engine,
    load_engine,
    stop_engine,
)
from paceline.foundation.models.answers.generation import generate_answers
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model, load_tokenizer
from paceline.foundation.models.values import (
    Answer,
    DraftError,
    EncodedPrompt,
    Interrupted,
    Sampling,
)

pytestmark = pytest.mark.engine

MAX_TOKENS, NUM_AFTER_END = 24, 3


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    engine = load_engine(target_path(), "float32", 128, seed=0, compiles=False)
    yield engine
    stop_engine(engine)


@pytest.fixture(scope="module")
def prompts() -> list[EncodedPrompt]:
    tokenizer = load_tokenizer(target_path())
    texts = ["import os\n", "def read(path):\n", "class Queue:\n    def put("]
    return [
        EncodedPrompt(text, text, tuple(tokenizer(text)["input_ids"]), MAX_TOKENS) for text in texts
    ]


def answers_of(
    generate: Any,
    model: Any,
    prompts: list[EncodedPrompt],
    sampling: Sampling,
    seed: int = 0,
    stop: StopRequest | None = None,
) -> list[Answer]:
    found: list[Answer] = generate(
        model,
        prompts,
        sampling,
        stop_ids={stop_of(prompts)},
        num_after_end=NUM_AFTER_END,
        seed=seed,
        stop=stop or StopRequest(),
    )
    return found


class DeadEngine:
    """An engine whose core has ended."""

    def __init__(self, stop: StopRequest | None = None) -> None:
        self._stop = stop

    def generate(self, *_: Any, **__: Any) -> Any:
        if self._stop is not None:
            self._stop.is_set = True
        raise EngineDeadError


def test_an_engine_that_ends_is_one_sentence_and_a_signal_an_interruption() -> None:
    """A signal ends the engine, too."""
    prompt, stop = EncodedPrompt("k", "c", (4, 5), 4), StopRequest()
    with pytest.raises(DraftError, match=r"^vLLM's engine ended .* Its log above has the cause"):
        answers_of(generate_in_engine, DeadEngine(), [prompt], Sampling(0.0))
    with pytest.raises(Interrupted):
        answers_of(generate_in_engine, DeadEngine(stop), [prompt], Sampling(0.0), stop=stop)


def stop_of(prompts: list[EncodedPrompt]) -> int:
    """The last token of the first prompt, a line break, ends answers, some after a few tokens."""
    return prompts[0].token_ids[-1]


def test_greedy_answers_end_and_continue_as_those_of_transformers(
    engine: Any, prompts: list[EncodedPrompt]
) -> None:
    target = load_model(target_path(), torch.float32, torch.device("cpu"))
    served = answers_of(generate_in_engine, engine, prompts, Sampling(0.0))
    assert served == answers_of(generate_answers, target, prompts, Sampling(0.0))
    assert any(answer.num_tokens < MAX_TOKENS for answer in served)


def test_sampled_answers_follow_the_seed(engine: Any, prompts: list[EncodedPrompt]) -> None:
    first, again, other = (
        answers_of(generate_in_engine, engine, prompts, Sampling(1.0), seed) for seed in (0, 0, 9)
    )
    assert first == again != other
