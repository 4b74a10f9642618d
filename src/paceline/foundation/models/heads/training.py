"""The loss of a head on a batch of answers, over the passes of a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paceline.foundation.models.heads.drafts import Drafts
from paceline.foundation.models.heads.head import Eagle3Head
from paceline.foundation.models.heads.losses import HeadLoss
from paceline.foundation.models.heads.states import StoredStates
from paceline.foundation.models.values import Answer

PASS_WEIGHT = 0.8
"""Of each pass, relative to the one before: fewer drafts reach it. As in EAGLE-3's recipe."""


class HeadLesson:
    """Computes the mean loss of batches, given by the indexes of their answers."""

    def __init__(
        self,
        target: Any,
        answers: Sequence[Answer],
        stored: StoredStates,
        loss: HeadLoss,
        num_passes: int,
    ) -> None:
        """`target` gives the embeddings and the output layer; `stored` has the states of
        `answers`."""
        self._embed = target.get_input_embeddings()
        self._output = target.get_output_embeddings()
        self._is_16_bit = self._output.weight.dtype == torch.bfloat16
        self._answers = answers
        self._stored = stored
        self._loss = loss
        self._num_passes = num_passes

    def mean_loss(self, head: Eagle3Head, indexes: Sequence[int]) -> Tensor:
        """Over the drafted tokens of these answers, by pass. A draft has another pass where
        its likeliest token was that of the answer: in service, drafts after others are rejected."""
        answers = [self._answers[index] for index in indexes]
        texts = [torch.tensor((*answer.prompt_ids, *answer.token_ids)) for answer in answers]
        states = [self._stored[index] for index in indexes]
        device = head.d2t.device
        # With rows for all passes of a draft that begins at any token of the longest text, and for
        # the token after them.
        more = self._num_passes + 1
        token_ids = F.pad(pad_sequence(texts, batch_first=True), (0, more)).to(device)
        padded = pad_sequence([state.aux for state in states], batch_first=True)
        aux = F.pad(padded, (0, 0, 0, more)).to(device).float()
        drafted = _drafted(answers, token_ids.shape[1]).to(device)
        of_drafted = _of_drafted(self._stored, indexes, answers)
        last, log_normalisers = (found.to(device) for found in of_drafted)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._is_16_bit):
            with torch.no_grad():
                embedded = self._embed(token_ids).float()
                rows = self._output.weight[head.tokens]
                logits = last.to(rows.dtype) @ rows.T
                probs = (logits.float() - log_normalisers.unsqueeze(-1)).exp()
                row_of = (drafted.flatten().cumsum(0) - 1).view(drafted.shape)  # of `probs`
            total, weights = torch.zeros((), device=device), 0.0
            drafts = Drafts(head, aux, embedded, self._num_passes)
            is_wanted = drafts.keep(drafted[:, 1 : drafts.rows.shape[1] + 1])
            for number in range(1, self._num_passes + 1):
                hidden = drafts.advance()
                predicted = drafts.rows + number  # positions whose next token is drafted
                chosen = is_wanted & drafted.gather(1, predicted)
                found_logits = head.logits(hidden[chosen]).float()
                found = self._loss(probs[row_of.gather(1, predicted)[chosen]], found_logits)
                weight = PASS_WEIGHT ** (number - 1)
                total, weights = total + weight * found.sum(), weights + weight * len(found)
                is_accepted = torch.zeros_like(chosen)
                written = token_ids.gather(1, predicted + 1)[chosen]
                is_accepted[chosen] = head.tokens[found_logits.argmax(dim=-1)] == written
                if not is_accepted.any():
                    break
                is_wanted = drafts.keep(is_accepted)
            return total / max(weights, 1.0)


def _of_drafted(
    stored: StoredStates, indexes: Sequence[int], answers: Sequence[Answer]
) -> tuple[Tensor, Tensor]:
    """The states before the output layer, and `log_normalisers`, where the target has the logits of
    the tokens that drafts predict."""
    last, log_normalisers = [], []
    for index, answer in zip(indexes, answers, strict=True):
        start = len(answer.prompt_ids)
        rows = slice(start, start + answer.num_tokens - 1)
        last.append(stored[index].last[rows])
        log_normalisers.append(stored.log_normalisers(index)[rows])
    return torch.cat(last), torch.cat(log_normalisers)


def _drafted(answers: Sequence[Answer], length: int) -> Tensor:
    """Whether drafts predict the token after a position, (num_answers, length): all tokens of an
    answer but its first."""
    drafted = torch.zeros(len(answers), length, dtype=torch.bool)
    for row, answer in enumerate(answers):
        start = len(answer.prompt_ids)
        drafted[row, start : start + answer.num_tokens - 1] = True
    return drafted
