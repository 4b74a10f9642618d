"""Scaling leaves what a layer computes unchanged, also when its norms are stored in 16 bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from paceline.workbench.quantize.own.channel_scales import InputSample, normalized, scale_layer


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


def moved(weights: Any, sample: InputSample) -> torch.Tensor:
    """Scales that have little to do with the inputs."""
    return normalized(sample.activity**2, sample.activity > 0)


def test_scaling_leaves_the_function_of_a_layer_unchanged() -> None:
    """Also when the norms are stored in 16 bits, and where one of them is 0."""
    one = layer()
    norm = one.get_submodule("input_layernorm").weight
    norm.data[7] = 0.0
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(1))
    before = outputs(one, x)
    norm_before = norm.detach().clone()
    samples = {}
    names = {
        "self_attn.q_proj": 64,
        "self_attn.o_proj": 64,
        "mlp.gate_proj": 64,
        "mlp.down_proj": 96,
    }
    for name, channels in names.items():
        samples[name] = InputSample(64, 1, seed=0)
        samples[name].add(torch.randn(64, channels, generator=torch.Generator().manual_seed(2)))
    scale_layer(one, samples, moved, scales_values=True)
    assert not torch.equal(norm, norm_before)
    assert torch.allclose(norm, norm.bfloat16().float(), rtol=1e-6)  # nothing is lost in storing
    for was, now in zip(before, outputs(one, x), strict=True):
        assert torch.allclose(was, now, atol=1e-4)


def test_scales_have_mean_one_and_bounded_ratios() -> None:
    given = torch.tensor([1e-30, 1.0, 1e30, 7.0])
    scales = normalized(given, torch.tensor([True, True, True, False]))
    assert scales[3] == 1
    assert float(scales[0]) == pytest.approx(1e-4)
    assert float(scales[2]) == pytest.approx(1e4)
    even = normalized(torch.tensor([2.0, 8.0]), torch.tensor([True, True]))
    assert torch.allclose(even, torch.tensor([0.5, 2.0]))
    nothing = torch.zeros(3)
    assert torch.equal(normalized(nothing, nothing > 0), torch.ones(3))


def test_the_largest_input_is_that_of_all_samples() -> None:
    sample = InputSample(2, 2, seed=0)
    sample.add(torch.tensor([[1.0, -7.0], [2.0, 3.0]]))
    sample.add(torch.tensor([[-5.0, 1.0], [1.0, 1.0]]))
    assert sample.largest.tolist() == [5, 7]
    assert sample.activity.tolist() == [2.25, 3]
    assert len(sample.rows) == 2
