"""The search protects channels that are active, and leaves the layer's function unchanged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from paceline.quantize.own.awq import InputSample, scale_layer, search_scales
from paceline.quantize.own.rounding import choose_scales, fake_quantize
from paceline.quantize.schemes import SCHEMES

AWQ = SCHEMES["awq"]


def sample_of(rows: torch.Tensor) -> InputSample:
    sample = InputSample(len(rows), 1, seed=0)
    sample.add(rows)
    return sample


def output_error(weight: torch.Tensor, scales: torch.Tensor, rows: torch.Tensor) -> float:
    scaled = weight * scales
    rounded = fake_quantize(scaled, choose_scales(scaled, AWQ, 32), AWQ, 32) / scales
    return (rows @ rounded.T - rows @ weight.T).square().mean().item()


def test_active_channels_are_scaled_up_and_the_output_error_falls() -> None:
    """Four of 64 channels are 30 times as active as the others."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(256, 64, generator=generator)
    rows[:, :4] *= 30
    weight = torch.randn(32, 64, generator=generator)
    scales = search_scales([weight], sample_of(rows), AWQ, 32, torch.float32)
    assert scales[:4].min() > scales[4:].max()
    assert output_error(weight, scales, rows) < 0.5 * output_error(weight, torch.ones(64), rows)


def test_channels_that_are_never_active_are_left_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 64, generator=generator)
    rows[:, 10:] = 0
    weight = torch.randn(32, 64, generator=generator)
    scales = search_scales([weight], sample_of(rows), AWQ, 32, torch.float32)
    assert torch.equal(scales[10:], torch.ones(54))
    assert bool(scales.isfinite().all())


def test_without_any_input_plain_rounding_remains() -> None:
    sample = sample_of(torch.zeros(8, 64))
    assert torch.equal(
        search_scales([torch.ones(32, 64)], sample, AWQ, 32, torch.float32), torch.ones(64)
    )


def layer() -> Any:
    """The modules of a decoder layer, with norms that multiply."""
    torch.manual_seed(0)

    def norm() -> Any:
        return SimpleNamespace(weight=nn.Parameter(torch.rand(64) + 0.5))

    modules: dict[str, Any] = {
        f"self_attn.{name}_proj": nn.Linear(64, 64, bias=name != "o") for name in "qkvo"
    }
    modules |= {
        "mlp.gate_proj": nn.Linear(64, 96, bias=False),
        "mlp.up_proj": nn.Linear(64, 96, bias=False),
        "mlp.down_proj": nn.Linear(96, 64, bias=False),
        "input_layernorm": norm(),
        "post_attention_layernorm": norm(),
    }
    return SimpleNamespace(get_submodule=modules.__getitem__)


@torch.no_grad()
def outputs(of: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What the matrices compute from a normalized input, without the attention itself."""
    get = of.get_submodule
    attended = get("input_layernorm").weight * x
    values = get("self_attn.v_proj")(attended)
    fed = get("post_attention_layernorm").weight * x
    gated = get("mlp.gate_proj")(fed)
    return [
        get("self_attn.q_proj")(attended),
        get("self_attn.k_proj")(attended),
        get("self_attn.o_proj")(values),
        gated,
        get("mlp.down_proj")(gated.relu() * get("mlp.up_proj")(fed)),
    ]


def test_scaling_leaves_the_function_of_a_layer_unchanged() -> None:
    one = layer()
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(1))
    before = outputs(one, x)
    norm_before = one.get_submodule("input_layernorm").weight.detach().clone()
    wide = torch.randn(64, 96, generator=torch.Generator().manual_seed(2)).abs() ** 3
    narrow = torch.randn(64, 64, generator=torch.Generator().manual_seed(3)).abs() ** 3
    samples = {
        "self_attn.q_proj": sample_of(narrow),
        "self_attn.o_proj": sample_of(narrow),
        "mlp.gate_proj": sample_of(narrow),
        "mlp.down_proj": sample_of(wide),
    }
    scale_layer(one, samples, AWQ, 32, torch.float32, scales_values=True)
    assert not torch.equal(one.get_submodule("input_layernorm").weight, norm_before)
    for was, now in zip(before, outputs(one, x), strict=True):
        assert torch.allclose(was, now, atol=1e-4)
