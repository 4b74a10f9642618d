"""Batches: each answer once per epoch, the same for a resumed training, the right positions."""

from __future__ import annotations

import itertools

import torch

from paceline.foundation.models.values import Answer, Sampling
from paceline.workbench.draft.training.examples import batches_from, trainable

GREEDY = Sampling(0.0)


def answer(prompt: int, tokens: int, after_end: int = 2) -> Answer:
    """Token ids are the lengths, so that a row can be recognised."""
    return Answer(
        key=f"{prompt} {tokens}",
        conversation="c",
        sampling=GREEDY,
        prompt_ids=tuple(range(100, 100 + prompt)),
        token_ids=tuple(range(200, 200 + tokens + after_end)),
        num_tokens=tokens,
    )


def test_drafted_are_all_tokens_of_an_answer_but_its_first() -> None:
    """A prompt of 3 and an answer of 4: inputs are 3 + 3 tokens; positions 3 to 5 predict the
    second to fourth token. A prompt of 2 and an answer of 2 has one such position, 2."""
    (batch,) = itertools.islice(batches_from([answer(3, 4), answer(2, 2)], seed=0, step=0), 1)
    assert batch.first == 2
    rows = {row.tolist()[-1]: index for index, row in enumerate(batch.token_ids)}
    longer, shorter = batch.token_ids[rows[202]], batch.token_ids[rows[0]]
    assert longer.tolist() == [100, 101, 102, 200, 201, 202]
    assert shorter.tolist() == [100, 101, 200, 0, 0, 0]
    assert batch.is_drafted[rows[202]].tolist() == [False, True, True, True]
    assert batch.is_drafted[rows[0]].tolist() == [True, False, False, False]


def test_an_epoch_has_every_answer_once_and_bounded_batches() -> None:
    answers = [answer(2 + n % 5, 2 + n % 7) for n in range(50)]
    num_rows = 0
    for batch in batches_from(answers, seed=3, step=0, step_tokens=40):
        assert batch.token_ids.numel() <= 40
        num_rows += len(batch.token_ids)
        if num_rows >= 50:
            break
    assert num_rows == 50


def test_a_later_start_reads_what_an_uninterrupted_training_reads() -> None:
    """The start is beyond the first epoch."""
    answers = [answer(2 + n % 5, 2 + n % 7) for n in range(30)]
    whole = list(itertools.islice(batches_from(answers, seed=1, step=0, step_tokens=60), 25))
    later = list(itertools.islice(batches_from(answers, seed=1, step=15, step_tokens=60), 10))
    for expected, found in zip(whole[15:], later, strict=True):
        assert torch.equal(expected.token_ids, found.token_ids)
        assert torch.equal(expected.is_drafted, found.is_drafted)
    other = next(batches_from(answers, seed=2, step=0, step_tokens=60))
    assert not torch.equal(whole[0].token_ids, other.token_ids)


def test_an_answer_longer_than_a_batch_is_a_batch_of_its_own() -> None:
    batch = next(batches_from([answer(30, 30)], seed=0, step=0, step_tokens=10))
    assert batch.token_ids.shape == (1, 59)


def test_answers_of_one_token_are_left_out() -> None:
    assert trainable([answer(3, 1), answer(3, 2)]) == [answer(3, 2)]
