"""A new draft is cut from the target's layers."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig

from paceline.foundation.models.models import load_model
from paceline.foundation.models.values import DraftError
from paceline.workbench.draft.training.start import (
    chosen_layers,
    cut_from_target,
    shrink_config,
    shrink_weights,
)
from unit.draft.conftest import TinyPair


@pytest.mark.parametrize(
    ("num_target", "num_draft", "expected"),
    [(28, 3, [0, 14, 27]), (6, 2, [0, 5]), (6, 1, [0]), (4, 3, [0, 2, 3])],
)
def test_layers_are_chosen_at_equal_distances(
    num_target: int, num_draft: int, expected: list[int]
) -> None:
    assert chosen_layers(num_target, num_draft) == expected


def test_layers_are_renumbered_and_everything_else_is_kept() -> None:
    names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    layers = [f"model.layers.{n}.mlp.weight" for n in range(12)]
    kept = shrink_weights({name: name for name in (*names, *layers)}, 12, 2)
    assert kept == {
        **{name: name for name in names},
        "model.layers.0.mlp.weight": "model.layers.0.mlp.weight",
        "model.layers.1.mlp.weight": "model.layers.11.mlp.weight",
    }


def test_a_setting_per_layer_is_cut_and_other_lists_are_not() -> None:
    config = AutoConfig.for_model(
        "qwen2", num_hidden_layers=2, eos_token_id=[1, 2],
        layer_types=["full_attention", "sliding_attention"],
    )  # fmt: skip
    small = shrink_config(config, 1)
    assert small.layer_types == ["full_attention"]
    assert small.eos_token_id == [1, 2]
    assert config.num_hidden_layers == 2


@pytest.mark.parametrize("num_layers", [2, 3])
def test_a_draft_has_fewer_layers_than_its_target(num_layers: int) -> None:
    with pytest.raises(DraftError, match=r"--layers is .* 1 to 1 layers"):
        shrink_config(LlamaConfig(num_hidden_layers=2), num_layers)


def test_the_cut_model_computes_with_the_first_layer_of_the_target(pair: TinyPair) -> None:
    target = load_model(pair.target, torch.float32, torch.device("cpu"))
    draft = cut_from_target(target, 1)
    ids = torch.tensor([[5, 9, 7]])
    with torch.inference_mode():
        del target.model.layers[1]
        target.config.num_hidden_layers = 1
        assert torch.allclose(draft(ids).logits, target(ids).logits, atol=1e-6)


def test_the_cut_model_has_no_dropout() -> None:
    """GPT-2 drops out a tenth while it trains: its acceptance would be too low."""
    target = GPT2LMHeadModel(
        GPT2Config(vocab_size=8, n_embd=8, n_layer=3, n_head=2, bos_token_id=1, eos_token_id=1)
    )
    draft = cut_from_target(target.eval(), 2)
    tokens = torch.arange(8)[None]
    assert draft(tokens).logits.equal(draft(tokens).logits)
