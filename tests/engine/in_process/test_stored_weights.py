"""What `paceline quantize` stores is what compressed-tensors reads and writes.

The library takes long to import; vLLM imports it too.
"""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.quantized.architecture import LINEARS
from paceline.foundation.quantized.compression import (
    compress_layer,
    decompress_layer,
    quantization_config,
)
from paceline.foundation.quantized.schemes import SCHEMES

pytestmark = pytest.mark.engine

GROUP_SIZES = {"awq": 32, "gptq": 32}


@pytest.mark.parametrize("name", list(SCHEMES))
def test_the_library_reads_the_configuration_as_its_own_preset(name: str) -> None:
    from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme

    scheme = SCHEMES[name]
    config = quantization_config(scheme, GROUP_SIZES.get(name))
    [found] = QuantizationConfig.model_validate(config).config_groups.values()
    preset = preset_name_to_scheme(scheme.preset, ["Linear"])
    if name in GROUP_SIZES:
        preset.weights.group_size = GROUP_SIZES[name]
    assert found.weights == preset.weights
    assert found.input_activations == preset.input_activations


@pytest.mark.parametrize("name", list(SCHEMES))
def test_the_library_reads_the_same_weights_and_stores_the_same_bytes(name: str) -> None:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig

    scheme, group_size = SCHEMES[name], GROUP_SIZES.get(name)
    generator = torch.Generator().manual_seed(0)
    matrices = {matrix: torch.randn(64, 96, generator=generator) for matrix in LINEARS}
    matrices["mlp.down_proj"][3] = 0
    stored = compress_layer(matrices, scheme, group_size, "bfloat16")
    ours = decompress_layer(stored, scheme, group_size)
    config = quantization_config(scheme, group_size)
    [described] = QuantizationConfig.model_validate(config).config_groups.values()
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    for matrix in LINEARS:
        prefix = f"{matrix}."
        local = {
            key.removeprefix(prefix): tensor
            for key, tensor in stored.items()
            if key.startswith(prefix)
        }
        with torch.compiler.set_stance("force_eager"):
            read = compressor.decompress(
                {**local, "weight_scale": local["weight_scale"].float()}, described
            )["weight"]
            again = compressor.compress(
                {key: value for key, value in local.items() if "scale" in key}
                | {"weight": ours[matrix], "weight_scale": local["weight_scale"].float()},
                described,
            )
        tolerance = 0.01 if name == "nvfp4" else 1e-6  # the library reads FP4 as bfloat16
        assert torch.allclose(read.float(), ours[matrix], atol=tolerance, rtol=tolerance)
        key = "weight" if "weight" in local else "weight_packed"
        assert torch.equal(again[key].view(torch.uint8), local[key].view(torch.uint8))
