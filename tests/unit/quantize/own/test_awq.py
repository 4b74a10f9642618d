"""The search protects channels that are active."""

from __future__ import annotations

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quantize.own.awq import search_scales
from paceline.workbench.quantize.own.channel_scales import InputSample

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
