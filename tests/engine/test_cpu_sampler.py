"""vLLM's CPU sampling functions on known answers: stock ones fail, mended ones do not.

When a stock function passes here, upstream has fixed it: remove its hook and its repair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from vllm.platforms import current_platform

from paceline.engine import plugin
from paceline.engine.compat import checks
from paceline.engine.fixes import cpu_sampler, sampler_check

if not current_platform.is_cpu():
    pytest.skip("the repair concerns vLLM's CPU build", allow_module_level=True)

pytestmark = pytest.mark.engine

NAMES = ("_expand_kernel_impl", "_rejection_random_sample_kernel_impl")


@pytest.fixture
def kernels() -> Iterator[Any]:
    """vLLM's module with the stock functions, put back as it was found."""
    import vllm._custom_ops  # noqa: F401 - loads the CPU kernels
    from vllm.utils import cpu_triton_utils
    from vllm.v1.sample.ops import topk_topp_sampler

    places = [(cpu_triton_utils, name) for name in NAMES]
    places.append((topk_topp_sampler, "apply_top_k_only"))
    found = [(module, name, getattr(module, name)) for module, name in places]
    for module, name, function in found:
        setattr(module, name, getattr(function, "__wrapped__", function))
    put_into_sampler()
    yield cpu_triton_utils
    for module, name, function in found:
        setattr(module, name, function)
    put_into_sampler()


def put_into_sampler() -> None:
    """What vLLM does when it makes a worker: the functions of this moment are the sampler's."""
    current_platform.register_triton_kernel_overrides()


def worker_says() -> str | None:
    """What a worker made now, with the functions of this moment, says of its sampler."""
    put_into_sampler()
    return sampler_check.check_worker()


def test_stock_vllm_fails_the_self_check(kernels: Any) -> None:
    """vLLM #55005: values per draft token are not written."""
    assert "#55005" in (worker_says() or "")


def test_stock_vllm_accepts_padding(kernels: Any) -> None:
    """The second fault by itself: -1 is looked up outside the row."""
    assert "padded" in (sampler_check._check_padding() or "")


def test_stock_vllm_fails_on_top_k_without_drafts(kernels: Any) -> None:
    """The third: the maximum of no k."""
    assert "without draft tokens" in (sampler_check._check_top_k() or "")


def test_the_repair_passes_the_self_check(kernels: Any) -> None:
    """All three functions mended, the third with the first call of the first."""
    assert cpu_sampler.apply()
    assert worker_says() is None


def test_a_repair_that_came_after_the_worker_was_made_is_not_believed(kernels: Any) -> None:
    """The module has the mended functions, the sampler still the stock ones."""
    assert cpu_sampler.apply()
    assert "#55005" in (sampler_check.check_worker() or "")


def test_applying_twice_wraps_once(kernels: Any) -> None:
    """The plugin loads in several places of one process."""
    plugin.register()
    once = [getattr(kernels, name) for name in NAMES]
    plugin.register()
    assert [getattr(kernels, name) for name in NAMES] == once


def test_a_hook_that_does_not_fit_leaves_vllm_alone(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock functions stay, loudly; the self-check then keeps sampled requests from drafts."""
    monkeypatch.setattr(
        checks,
        "REGISTER",
        tuple(replace(s, expected=()) if s.name == "expand_kernel" else s for s in checks.REGISTER),
    )
    stock = [getattr(kernels, name) for name in NAMES]
    assert not cpu_sampler.apply()
    assert [getattr(kernels, name) for name in NAMES] == stock
    assert worker_says() is not None


def test_the_plugin_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM calls plugins unguarded."""

    def explode() -> bool:
        raise RuntimeError("planted")

    monkeypatch.setattr(cpu_sampler, "apply", explode)
    plugin.register()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_expansion_repeats_each_value_per_draft_token(kernels: Any, dtype: Any) -> None:
    """3, 1 and 0 tokens of the values 5, 0 and 7; 0 becomes 1."""
    cpu_sampler.apply()
    output = torch.full((4,), 99).to(dtype)
    kernels._expand_kernel_impl(
        output, torch.tensor([5, 0, 7]).to(dtype), torch.tensor([3, 4, 4], dtype=torch.int32), 0, 1
    )
    assert output.tolist() == [5, 5, 5, 1]


def test_one_request_accepted_with_half_the_chance(kernels: Any) -> None:
    """The mended function still accepts at target over draft probability: 0.2 / 0.4."""
    cpu_sampler.apply()
    num = 4000
    target_probs = torch.tensor([[0.2, 0.8]]).repeat(num, 1)
    draft_probs = torch.tensor([[0.4, 0.6]]).repeat(num, 1)
    output = torch.full((num, 2), -1, dtype=torch.int32)
    kernels._rejection_random_sample_kernel_impl(
        output,
        torch.arange(1, num + 1, dtype=torch.int32),
        torch.zeros(num, dtype=torch.int32),
        draft_probs,
        target_probs,
        torch.full((num, 1), 1),
        torch.ones(num, dtype=torch.int32),
        torch.rand(num, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        torch.zeros(num, dtype=torch.bool),
        1,
        2,
        None,
        NO_DRAFT_PROBS=False,
    )
    accepted_fraction = (output[:, 0] == 0).float().mean().item()
    assert accepted_fraction == pytest.approx(0.5, abs=0.03)  # four standard errors
