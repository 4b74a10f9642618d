"""Stored tensors are those of compressed-tensors, and give back the rounded matrices."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.compatibility.stored_formats import stored_format
from paceline.foundation.quantized.architecture import LINEARS
from paceline.foundation.quantized.compression import (
    compress_layer,
    decompress_layer,
    quantization_config,
)
from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import SCHEMES

GROUP_SIZES = {"awq": 32, "gptq": 32}


def matrices() -> dict[str, torch.Tensor]:
    """Random matrices of a layer; one row of the last is zero."""
    generator = torch.Generator().manual_seed(0)
    found = {name: torch.randn(64, 96, generator=generator).bfloat16() for name in LINEARS}
    found["mlp.down_proj"][3] = 0
    return found


@pytest.mark.parametrize("name", list(SCHEMES))
def test_what_is_stored_is_close_to_the_weights(name: str) -> None:
    """Root mean square errors of a normal distribution: 4 bits some 10 %, 8 bits 1 to 3 %."""
    scheme, group_size = SCHEMES[name], GROUP_SIZES.get(name)
    stored = compress_layer(matrices(), scheme, group_size, "bfloat16")
    found = decompress_layer(stored, scheme, group_size)
    limit = 0.15 if scheme.bits == 4 else 0.04
    for matrix, weight in matrices().items():
        error = (found[matrix] - weight.float()).square().mean().sqrt()
        assert error < limit
    assert torch.equal(found["mlp.down_proj"][3], torch.zeros(96))


@pytest.mark.parametrize("name", ["awq", "w8a8", "fp8"])
def test_a_server_computes_with_exactly_the_rounded_weights(name: str) -> None:
    """Also with scales that were chosen before: nothing is rounded a second time."""
    scheme, group_size = SCHEMES[name], GROUP_SIZES.get(name)
    dtype = torch.bfloat16 if group_size else torch.float32
    scales = {
        matrix: choose_scales(weight, scheme, group_size, dtype)
        for matrix, weight in matrices().items()
    }
    rounded = {
        matrix: fake_quantize(weight, scales[matrix], scheme, group_size)
        for matrix, weight in matrices().items()
    }
    stored = compress_layer(rounded, scheme, group_size, "bfloat16", scales)
    for matrix, weight in decompress_layer(stored, scheme, group_size).items():
        assert torch.allclose(weight, rounded[matrix], atol=1e-6)


def test_names_and_types_are_what_vllm_loads() -> None:
    def types(name: str, matrix: str = "mlp.up_proj") -> dict[str, tuple[torch.dtype, list[int]]]:
        stored = compress_layer(matrices(), SCHEMES[name], GROUP_SIZES.get(name), "bfloat16")
        prefix = f"{matrix}.weight"
        return {
            key.removeprefix(prefix): (tensor.dtype, list(tensor.shape))
            for key, tensor in stored.items()
            if key.startswith(prefix)
        }

    assert types("awq") == {
        "_packed": (torch.int32, [64, 12]),
        "_scale": (torch.bfloat16, [64, 3]),
        "_shape": (torch.int64, [2]),
    }
    assert types("w8a8") == {"": (torch.int8, [64, 96]), "_scale": (torch.float32, [64, 1])}
    assert types("fp8") == {
        "": (torch.float8_e4m3fn, [64, 96]),
        "_scale": (torch.float32, [64, 1]),
    }
    assert types("nvfp4") == {
        "_packed": (torch.uint8, [64, 48]),
        "_scale": (torch.float8_e4m3fn, [64, 6]),
        "_global_scale": (torch.float32, [1]),
    }


def test_matrices_that_vllm_joins_share_their_global_scale() -> None:
    stored = compress_layer(matrices(), SCHEMES["nvfp4"], None, "bfloat16")
    q, k, v, o = (stored[f"self_attn.{n}_proj.weight_global_scale"].item() for n in "qkvo")
    assert q == k == v
    assert o != q


@pytest.mark.parametrize("name", list(SCHEMES))
def test_the_configuration_says_which_format_it_is(name: str) -> None:
    config = quantization_config(SCHEMES[name], GROUP_SIZES.get(name))
    assert config["quant_method"] == "compressed-tensors"
    assert config["ignore"] == ["lm_head"]
    assert stored_format({"quantization_config": config}) == SCHEMES[name].format
    [group] = config["config_groups"].values()
    assert group["targets"] == ["Linear"]
    if name in GROUP_SIZES:
        assert group["weights"]["group_size"] == 32
