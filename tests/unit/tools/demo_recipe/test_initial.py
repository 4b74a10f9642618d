"""The initial weights already copy from the prompt."""

from __future__ import annotations

import torch
from demo_recipe.initial import initialise
from demo_recipe.model import Qwen2, Shape


def test_training_starts_with_heads_that_copy() -> None:
    """100 random tokens twice: with the heads the second half has a much lower loss.

    A model without the heads has the same loss in both halves.
    """
    shape = Shape(hidden_size=384, num_layers=2, num_kv_heads=2, intermediate_size=64)
    gains = {}
    for has_heads in (True, False):
        torch.manual_seed(0)
        model = Qwen2(shape)
        if has_heads:
            initialise(model)
        once = torch.randint(300, 4000, (4, 100), generator=torch.Generator().manual_seed(1))
        twice = torch.cat((once, once), dim=1)
        with torch.no_grad():
            logits = model(twice[:, :-1])
        nats = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), twice[:, 1:].flatten(), reduction="none"
        ).view(4, -1)
        gains[has_heads] = (nats[:, :99].mean() - nats[:, 101:].mean()).item()
    assert gains[True] > 0.5
    assert abs(gains[False]) < 0.05
