"""Quantized folders and rounded models compute alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paceline.foundation.answer_quality.values import NotComputed, QualityError
from paceline.foundation.models.models import load_model
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quality.models import load_variant, read_format, round_model
from paceline.workbench.quality.models.formats import PLAIN
from paceline.workbench.quality.models.kv_cache import round_kv_cache
from paceline.workbench.quality.models.variant import build_model, expand
from unit.quality.conftest import quantize

CPU = torch.device("cpu")
TOKENS = torch.tensor([[5, 77, 300, 1024, 9, 2048]])


def logits(model: object) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=TOKENS, use_cache=False).logits.float()  # type: ignore[operator]
    return found


@pytest.mark.parametrize("scheme", ["w8a8", "fp8"])
def test_a_folder_computes_what_the_rounded_original_does(
    tiny: Path, tmp_path: Path, scheme: str
) -> None:
    folder = quantize(tiny, scheme, tmp_path / scheme)
    form = read_format(folder)
    loaded = load_variant(folder, form, torch.float32, CPU)
    rounded = load_model(tiny, torch.float32, CPU)
    exact = logits(rounded)
    round_model(rounded, form)
    assert torch.equal(logits(loaded), logits(rounded))
    assert 0 < (logits(loaded) - exact).abs().max() < 0.5


def test_inputs_are_rounded_as_well_as_weights(w8a8: Path) -> None:
    """The weights alone would compute something else."""
    form = read_format(w8a8)
    loaded = load_variant(w8a8, form, torch.float32, CPU)
    found = logits(loaded)
    for name in form.matrices:
        loaded.get_submodule(name)._forward_pre_hooks.clear()
    assert not torch.equal(logits(loaded), found)


def test_nothing_is_rounded_of_an_unquantized_model(tiny: Path) -> None:
    model = load_model(tiny, torch.float32, CPU)
    exact = logits(model)
    round_model(model, read_format(tiny))
    assert torch.equal(logits(model), exact)


def test_tensors_that_lack_a_part_are_named() -> None:
    with pytest.raises(QualityError, match=r"tensors of layer\.up do not fit w8a8-int8"):
        expand({"layer.up.weight_scale": torch.ones(4, 1)}, SCHEMES["w8a8"])


def test_scales_of_a_shape_that_does_not_fit_are_named() -> None:
    stored = {"up.weight": torch.ones(4, 8, dtype=torch.int8), "up.weight_scale": torch.ones(1)}
    with pytest.raises(QualityError, match=r"tensors of up do not fit w8a8-int8"):
        expand(stored, SCHEMES["w8a8"])


def test_tensors_without_a_place_in_the_model_are_not_ignored(tiny: Path) -> None:
    tensors = dict(load_model(tiny, torch.float32, CPU).state_dict())
    tensors["model.rotary_emb.inv_freq"] = torch.ones(4)
    build_model(tiny, tensors, PLAIN, torch.float32, CPU)
    tensors["model.layers.0.mlp.gate.correction"] = torch.ones(4)
    with pytest.raises(NotComputed, match=r"1 tensors .* such as model\.layers\.0\.mlp\.gate"):
        build_model(tiny, tensors, PLAIN, torch.float32, CPU)


def test_an_fp8_cache_costs_little_and_a_wrong_scale_much(tiny: Path) -> None:
    exact = logits(load_model(tiny, torch.float32, CPU))
    changes = []
    for scale in (1.0, 1e-4):
        model = load_model(tiny, torch.float32, CPU)
        round_kv_cache(model, scale)
        changes.append(float((logits(model) - exact).abs().max()))
    assert 0 < changes[0] < 0.1 * changes[1]
