"""Score texts with a model that runs in this process. One model is in memory at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from paceline.foundation.answer_quality.divergence import NUM_NAMED, Scores
from paceline.foundation.answer_quality.values import Floats, Text
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import vocabulary_size
from paceline.foundation.models.passes import batches, text_logits
from paceline.foundation.models.progress import DraftProgress


@torch.inference_mode()
def score_texts(
    model: Any,
    texts: Sequence[Text],
    baseline: Mapping[str, Scores] | None,
    *,
    what: str,
    progress: DraftProgress,
    stop: StopRequest,
) -> dict[str, Scores]:
    """The scores of each text by its key. `baseline` is None when this model is the baseline.

    Tokens that the model does not have are given the probability 0. Raises Interrupted between two
    batches.
    """
    progress.begin(what, len(texts))
    found: dict[str, Scores] = {}
    for batch in batches(texts, vocabulary_size(model.config)):
        stop.raise_if_set()
        for text, logits in zip(batch, text_logits(model, batch), strict=True):
            named = None if baseline is None else torch.from_numpy(baseline[text.key].ids).long()
            found[text.key] = _score(logits, text, named)
        progress.update(len(found))
    return found


def _score(logits: Tensor, text: Text, named: Tensor | None) -> Scores:
    """From logits (num_tokens, vocab_size)."""
    logprobs = logits.double().log_softmax(dim=-1)
    if named is None:
        ids = logprobs.topk(min(NUM_NAMED, logprobs.shape[1]), dim=-1).indices
    else:
        ids = named.to(logits.device)
    own = torch.tensor(text.token_ids, device=logits.device).unsqueeze(1)
    return Scores(
        ids=ids.int().cpu().numpy(),
        logprobs=_at(logprobs, ids),
        token_logprobs=_at(logprobs, own)[:, 0],
        best=logprobs.argmax(dim=-1).int().cpu().numpy(),
    )


def _at(logprobs: Tensor, ids: Tensor) -> Floats:
    """Log-probabilities of the ids, (num_tokens, num_ids); -inf beyond the vocabulary."""
    size = logprobs.shape[1]
    found = logprobs.gather(1, ids.clamp(max=size - 1)).masked_fill(ids >= size, -torch.inf)
    values: Floats = found.cpu().numpy()
    return values
