"""The folder of a head: complete and read back, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GraniteConfig, LlamaConfig

from paceline.foundation.models.heads.folder import head_config_of, read_head, write_head
from paceline.foundation.models.heads.head import Eagle3Head
from paceline.foundation.models.heads.vocabulary import choose_tokens
from paceline.foundation.models.values import DraftError

TARGET = LlamaConfig(
    vocab_size=100,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=30,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def head() -> Eagle3Head:
    torch.manual_seed(0)
    made = Eagle3Head(head_config_of(TARGET, 64))
    made.d2t.copy_(torch.arange(64) // 3)
    return made


def test_a_head_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = head()
    write_head(written, tmp_path)
    found = read_head(tmp_path)
    assert found.config == written.config
    assert torch.equal(found.tokens, torch.arange(64) + torch.arange(64) // 3)
    for name, value in written.state_dict().items():
        wanted = value.bfloat16().float() if value.is_floating_point() else value
        assert torch.equal(found.state_dict()[name], wanted), name


@pytest.mark.parametrize("name", ["fc.weight", "midlayer.self_attn.k_proj.weight", "d2t"])
def test_a_missing_tensor_is_refused(tmp_path: Path, name: str) -> None:
    """vLLM would take whatever is in memory instead."""
    write_head(head(), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(DraftError, match=f"no EAGLE-3 head .*: {name} is missing"):
        read_head(tmp_path)


def test_other_arithmetic_is_refused(tmp_path: Path) -> None:
    write_head(head(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"norm_before_residual": True}))
    with pytest.raises(DraftError, match="it has norm_before_residual"):
        read_head(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r"has no EAGLE-3 head .*No such file"):
        read_head(tmp_path)


@pytest.mark.parametrize(("num_layers", "layers"), [(30, (2, 15, 27)), (6, (1, 3, 5)), (2, (1,))])
def test_the_layers_that_a_head_reads(num_layers: int, layers: tuple[int, ...]) -> None:
    config = LlamaConfig(**{**TARGET.to_dict(), "num_hidden_layers": num_layers})
    assert head_config_of(config, 64).aux_layers == layers


def test_scaled_positions_are_refused() -> None:
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    with pytest.raises(DraftError, match="plain rotary positions"):
        head_config_of(LlamaConfig(**{**TARGET.to_dict(), "rope_parameters": scaled}), 64)


@pytest.mark.parametrize(
    ("config", "size", "message"),
    [
        (
            TARGET,
            100,
            "draft 100 tokens, and must draft fewer than the 100 of the target; set --head-voc",
        ),
        (GraniteConfig(), 64, "the target is granite; train a draft model instead"),
    ],
)
def test_targets_that_a_head_does_not_fit(config: Any, size: int, message: str) -> None:
    with pytest.raises(DraftError, match=message):
        head_config_of(config, size)


def test_the_tokens_of_a_head() -> None:
    """Those that must be in it, then the most frequent, then the lowest."""
    answers = [[5, 5, 7], [9, 7, 5]]
    assert choose_tokens(answers, [1], 3, 10) == [1, 5, 7]
    assert choose_tokens(answers, [1], 6, 10) == [0, 1, 2, 5, 7, 9]
