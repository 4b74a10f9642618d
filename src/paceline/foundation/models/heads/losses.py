"""Losses of a head whose vocabulary is a part of the target's, per position.

The target's probabilities are over its whole vocabulary, of which the head's tokens have a part:
what is left is never drafted. Renormalising them would overstate what is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

HeadLoss = Callable[[Tensor, Tensor], Tensor]
"""(target_probs, head_logits), both (num_positions, draft_vocab_size), to (num_positions,)."""


def cross_entropy(target_probs: Tensor, head_logits: Tensor) -> Tensor:
    """Of the head's tokens, in nats per position."""
    loss: Tensor = -(target_probs * head_logits.log_softmax(dim=-1)).sum(dim=-1)
    return loss


def rejection(target_probs: Tensor, head_logits: Tensor) -> Tensor:
    """Chance in [0, 1] that a sampled draft token is rejected: 1 - sum(min(p, q))."""
    return 1 - torch.minimum(target_probs, head_logits.softmax(dim=-1)).sum(dim=-1)


LOSSES = MappingProxyType({"forward-kl": cross_entropy, "tv": rejection})
"""By the name of `paceline draft train --loss`. The first differs from the divergence by a
constant."""
