"""The acceptance of every token of an answer, from the logits of the target and the draft on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.foundation.models.sampling import draft_probs, target_probs
from paceline.foundation.models.values import Sampling


@dataclass(frozen=True, slots=True)
class TokenAcceptance:
    """Per token of a text, each a list of (num_tokens,); see `blocks`."""

    realised: list[float]
    """Probability that a draft that reached the token had it accepted, given the text."""
    expected: list[float]
    """Probability that any drafted token is accepted there: 1 - total variation."""


def accept_tokens(
    target_logits: Tensor,
    draft_logits: Tensor,
    token_ids: Tensor,
    sampling: Sampling,
    *,
    samples_drafts: bool,
) -> TokenAcceptance:
    """Acceptance of `token_ids` (num_tokens,), from logits (num_tokens, vocab_size) of both.

    A greedy request accepts a drafted token that is the target's own. In a sampled request, a draft
    model that samples has its token accepted with min(1, target_probs / draft_probs); one that
    takes its most probable token, with the target's probability of it.
    """
    if sampling.is_greedy:
        hits = (draft_logits.argmax(dim=-1) == token_ids).double().tolist()
        return TokenAcceptance(hits, hits)
    p = target_probs(target_logits, sampling)
    chosen = token_ids.unsqueeze(1)
    if not samples_drafts:
        guesses = draft_logits.argmax(dim=-1, keepdim=True)
        return TokenAcceptance(
            (guesses == chosen).squeeze(1).double().tolist(), p.gather(1, guesses)[:, 0].tolist()
        )
    q = draft_probs(draft_logits, sampling)
    target_prob, draft_prob = p.gather(1, chosen)[:, 0], q.gather(1, chosen)[:, 0]
    realised = torch.where(draft_prob >= target_prob, 1.0, draft_prob / target_prob)
    return TokenAcceptance(realised.tolist(), torch.minimum(p, q).sum(dim=-1).tolist())
