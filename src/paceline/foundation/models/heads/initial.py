"""A head before its training: its first weights, and a first layer that learns evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

from paceline.foundation.models.heads.head import Eagle3Head, HeadConfig


def initial_head(
    config: HeadConfig, target: Any, tokens: Sequence[int], scales: Tensor, seed: int
) -> Eagle3Head:
    """A head whose output layer is the target's for its tokens; the rest is random, and every
    auxiliary number has the same weight in it: `scales` are those of `aux_scales`."""
    torch.manual_seed(seed)
    head = Eagle3Head(config)
    for module in head.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    with torch.no_grad():
        head.fc.weight.div_(scales)
        head.d2t.copy_(torch.tensor(tokens) - torch.arange(len(tokens)))
        head.lm_head.weight.copy_(target.get_output_embeddings().weight[list(tokens)])
        head.norm.weight.copy_(target.model.norm.weight)
    return head


class _EvenInputs(nn.Module):
    """The weight for inputs that are scaled to a root mean square of 1.

    Some hidden numbers of a target are a hundred times as large as others. A step of an optimizer
    that is the same for all inputs changes little but what is made of those.
    """

    scales: Tensor

    def __init__(self, scales: Tensor) -> None:
        super().__init__()
        self.register_buffer("scales", scales)

    def forward(self, weight: Tensor) -> Tensor:
        return weight / self.scales

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight * self.scales


def even_inputs(head: Eagle3Head, scales: Tensor) -> None:
    """Train the layer that reads the target's states as if these had the same size, until
    `plain_inputs`. The head computes what it computed."""
    register_parametrization(head.fc, "weight", _EvenInputs(scales))


def plain_inputs(head: Eagle3Head) -> None:
    """Undo `even_inputs`, with what was learned."""
    remove_parametrizations(head.fc, "weight")
