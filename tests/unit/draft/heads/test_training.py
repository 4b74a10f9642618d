"""The loss of a head: every pass of every draft that could be served, and no other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.foundation.models.heads.drafts import Drafts
from paceline.foundation.models.heads.folder import head_config_of
from paceline.foundation.models.heads.head import Eagle3Head
from paceline.foundation.models.heads.initial import initial_head
from paceline.foundation.models.heads.losses import LOSSES
from paceline.foundation.models.heads.states import StoredStates, log_normalisers_of, states_of
from paceline.foundation.models.heads.training import PASS_WEIGHT, HeadLesson
from paceline.foundation.models.models import load_model
from paceline.foundation.models.values import Answer, Sampling
from unit.draft.conftest import TinyPair

NUM_PASSES = 3
TOKENS = list(range(1, 99, 3))
ANSWERS = [
    Answer("a", "a", Sampling(0.0), (4, 9, 7), (10, 1, 1, 40, 1, 1, 1, 11), 7),
    Answer("b", "b", Sampling(0.0), (5, 8), (19, 1), 2),
]
"""The first one is continued past its end, the second one is not. The head likes token 1."""


class BiasedHead(Eagle3Head):
    """Drafts token 1 nearly always."""

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden) + 20 * (self.tokens == 1)


@pytest.fixture(scope="module")
def target(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def head(target: Any) -> Eagle3Head:
    made = initial_head(
        head_config_of(target.config, len(TOKENS)), target, TOKENS, torch.ones(()), seed=0
    )
    made.__class__ = BiasedHead
    return made


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_that_of_drafts_one_after_the_other(
    target: Any, head: Eagle3Head, tmp_path: Path, loss: str
) -> None:
    """Drafts begin after the prompt's last token, and the answer's first token is not drafted. A
    pass follows where the last one drafted what the answer has. The target's probabilities are over
    its whole vocabulary."""
    total, weights, passes = 0.0, 0.0, Counter[int]()
    for answer in ANSWERS:
        for number, label, logits in drafted(target, head, answer):
            probs = label.softmax(-1)[TOKENS]
            weight = PASS_WEIGHT ** (number - 1)
            total += weight * LOSSES[loss](probs[None], logits[None]).item()
            weights += weight
            passes[number] += 1
    assert passes == {1: 7, 2: 4, 3: 2}
    lengths = [len(answer.prompt_ids) + len(answer.token_ids) for answer in ANSWERS]
    stored = StoredStates(tmp_path / "states.bin", lengths, len(head.config.aux_layers), 32)
    for index, answer in enumerate(ANSWERS):
        [states] = states_of(target, [answer], head.config.aux_layers)
        stored.put(index, states, log_normalisers_of(target, states, len(answer.prompt_ids)))
    lesson = HeadLesson(target, ANSWERS, stored, LOSSES[loss], NUM_PASSES)
    for order in ([0, 1], [1, 0]):
        found = lesson.mean_loss(head, order).item()
        assert found == pytest.approx(total / weights, rel=1e-2)  # states are stored in 16 bits


def drafted(target: Any, head: Eagle3Head, answer: Answer) -> list[tuple[int, Tensor, Tensor]]:
    """Of each drafted token of the answer: its pass, and the logits of target and head."""
    ids = torch.tensor([*answer.prompt_ids, *answer.token_ids])
    num_prompt, end = len(answer.prompt_ids), len(answer.prompt_ids) + answer.num_tokens
    labels = target(ids[None]).logits[0]
    padded = torch.cat([ids, torch.zeros(NUM_PASSES, dtype=torch.long)])
    aux = states_of(target, [answer], head.config.aux_layers)[0].aux
    aux = torch.cat([aux, torch.zeros(NUM_PASSES, aux.shape[1])])
    embedded = target.get_input_embeddings()(padded)
    found = []
    with torch.no_grad():
        drafts = Drafts(head, aux[None], embedded[None], NUM_PASSES)
        passes = [drafts.advance() for _ in range(NUM_PASSES)]
        for start in range(num_prompt - 1, passes[0].shape[1]):
            for number, hidden in enumerate(passes, 1):
                token = start + number + 1
                if not num_prompt < token < end:
                    break
                logits = head.logits(hidden[0, start])
                found.append((number, labels[token - 1], logits))
                if head.tokens[logits.argmax()] != padded[token]:
                    break
    return found
