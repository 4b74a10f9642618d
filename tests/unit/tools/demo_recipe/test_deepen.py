"""The twin has the outputs of its source, and cannot be smaller."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from demo_recipe import dataset, deepen, export
from demo_recipe.model import Qwen2
from safetensors.torch import load_file

from unit.tools.demo_recipe.shapes import TINY


def test_the_deepened_twin_has_the_same_outputs(data: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(2)
    export.export(Qwen2(TINY), dataset.load_tokenizer(data), tmp_path / "small")
    count = deepen.deepen(
        tmp_path / "small", tmp_path / "twin", num_layers=5, intermediate_size=160
    )
    assert count == sum(
        w.numel() for w in load_file(tmp_path / "twin" / "model.safetensors").values()
    )
    small, twin = (
        AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32)
        for name in ("small", "twin")
    )
    token_ids = torch.randint(0, 4096, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(small(token_ids).logits, twin(token_ids).logits, atol=1e-5)


def test_a_smaller_twin_is_an_error_that_names_both_sizes(data: Path, tmp_path: Path) -> None:
    export.export(Qwen2(TINY), dataset.load_tokenizer(data), tmp_path / "small")
    with pytest.raises(ValueError, match="got 1 layers and intermediate size 96"):
        deepen.deepen(tmp_path / "small", tmp_path / "twin", num_layers=1, intermediate_size=96)
