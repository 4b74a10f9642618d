"""The search moves the outliers of activations into weights, as far as that helps."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize, round_tokens
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quantize.own.channel_scales import InputSample
from paceline.workbench.quantize.own.smoothquant import search_scales

INT8 = SCHEMES["smoothquant"]


def sample_of(rows: torch.Tensor) -> InputSample:
    sample = InputSample(len(rows), 1, seed=0)
    sample.add(rows)
    return sample


def served(weight: torch.Tensor, scales: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """What an INT8 server computes of the rows with these scales."""
    scaled = weight * scales
    rounded = fake_quantize(scaled, choose_scales(scaled, INT8, None), INT8, None)
    return round_tokens(rows / scales) @ rounded.T


def drawn(num_rows: int = 256, channels: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(num_rows, channels, generator=generator)
    return rows, torch.randn(32, channels, generator=generator)


def test_outliers_are_divided_away_and_the_output_error_falls() -> None:
    """Two of 64 channels are a hundred times as large as the others."""
    rows, weight = drawn()
    rows[:, :2] *= 100
    weight[:, :2] /= 100  # as in a model: what is large is multiplied by what is small
    scales = search_scales([weight], sample_of(rows), INT8)
    assert scales[:2].min() > 10 * scales[2:].max()
    wanted = rows @ weight.T
    errors = [
        (served(weight, one, rows) - wanted).square().mean() for one in (scales, torch.ones(64))
    ]
    assert errors[0] < 0.01 * errors[1]


def test_the_error_of_a_huge_token_does_not_decide() -> None:
    """One row in 256 is a thousand times as large, and would be served best without scales."""
    rows, weight = drawn()
    rows[:, :2] *= 100
    weight[:, :2] /= 100
    rows[0] = 1000.0
    wanted = rows[1:] @ weight.T
    scales = search_scales([weight], sample_of(rows), INT8)
    error = (served(weight, scales, rows[1:]) - wanted).square().mean()
    plain = (served(weight, torch.ones(64), rows[1:]) - wanted).square().mean()
    assert error < 0.01 * plain


def test_of_matrices_that_share_their_inputs_the_one_with_small_outputs_counts_too() -> None:
    """The small one has outliers to divide away; the large one is served a little better without
    scales."""
    rows, large = drawn()
    rows[:, :2] *= 100
    small = 1e-3 * torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
    small[:, :2] /= 100
    scales = search_scales([large, small], sample_of(rows), INT8)
    wanted = rows @ small.T
    error = (served(small, scales, rows) - wanted).square().mean()
    plain = (served(small, torch.ones(64), rows) - wanted).square().mean()
    assert error < 0.1 * plain


def test_a_column_of_zeros_gives_finite_scales() -> None:
    rows, weight = drawn()
    rows[:, :2] *= 100
    weight[:, 5] = 0
    assert bool(search_scales([weight], sample_of(rows), INT8).isfinite().all())


@pytest.mark.parametrize("silent", [slice(10, None), slice(None)], ids=["some", "all"])
def test_channels_that_are_never_active_are_left_alone(silent: slice) -> None:
    rows, weight = drawn()
    rows[:, :2] *= 100
    rows[:, silent] = 0
    weight[:, 11] = 0
    scales = search_scales([weight], sample_of(rows), INT8)
    assert bool((scales[silent] == 1).all())
    assert bool(scales.isfinite().all())


def test_rows_of_zeros_are_rounded_to_zeros() -> None:
    assert torch.equal(round_tokens(torch.zeros(2, 4)), torch.zeros(2, 4))
    values = torch.tensor([[1.0, -127.0, 0.4], [127.0, 0.6, 0.0]])
    assert torch.equal(round_tokens(values), torch.tensor([[1.0, -127, 0], [127, 1, 0]]))
