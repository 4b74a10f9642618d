"""Losses of a draft against its target, per position, from the logits of both on the same text.

A sampled draft token is accepted with probability sum(min(target_probs, draft_probs)), which is one
minus the total variation (Leviathan et al., 2023, arXiv 2211.17192). Forward KL bounds the total
variation (Pinsker: TV <= sqrt(KL / 2)). The gradient of the total variation vanishes where the two
distributions hardly overlap, so it suits a draft that is already close.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]
"""(target_logits, draft_logits), both (num_positions, vocab_size), to (num_positions,)."""


def forward_kl(target_logits: Tensor, draft_logits: Tensor) -> Tensor:
    """KL(target || draft) in nats per position. Only the draft gets a gradient."""
    with torch.no_grad():
        target_probs = target_logits.softmax(dim=-1)
        entropy: Tensor = -torch.special.xlogy(target_probs, target_probs).sum(dim=-1)
    cross = F.cross_entropy(draft_logits, target_probs, reduction="none")
    return cross - entropy


def total_variation(target_logits: Tensor, draft_logits: Tensor) -> Tensor:
    """Total variation in [0, 1] per position: one minus the acceptance of a sampled draft token."""
    with torch.no_grad():
        target_probs = target_logits.softmax(dim=-1)
    return 1 - torch.minimum(target_probs, draft_logits.softmax(dim=-1)).sum(dim=-1)


LOSSES = MappingProxyType({"forward-kl": forward_kl, "tv": total_variation})
"""By the name of `paceline draft train --loss`."""
