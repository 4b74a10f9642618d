"""vLLM's CPU sampling functions against known answers: stock functions fail, fixed ones pass.

When a stock function passes here, vLLM has fixed it: remove the hook and the fix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from vllm.platforms import current_platform

from paceline.runtime.engine import plugin
from paceline.runtime.engine.compat import checks
from paceline.runtime.engine.fixes import cpu_sampler, sampler_check

if not current_platform.is_cpu():
    pytest.skip(
        "the fix concerns vLLM's CPU build, and this is another one", allow_module_level=True
    )

pytestmark = pytest.mark.engine

NAMES = ("_expand_kernel_impl", "_rejection_random_sample_kernel_impl")


@pytest.fixture
def kernels() -> Iterator[Any]:
    """vLLM's module with the stock functions; the former ones are restored afterwards."""
    import vllm._custom_ops  # noqa: F401 - loads the CPU kernels
    from vllm.utils import cpu_triton_utils
    from vllm.v1.sample.ops import topk_topp_sampler

    functions = [(cpu_triton_utils, name) for name in NAMES]
    functions.append((topk_topp_sampler, "apply_top_k_only"))
    found = [(module, name, getattr(module, name)) for module, name in functions]
    for module, name, function in found:
        setattr(module, name, getattr(function, "__wrapped__", function))
    bind_to_sampler()
    yield cpu_triton_utils
    for module, name, function in found:
        setattr(module, name, function)
    bind_to_sampler()


def bind_to_sampler() -> None:
    """Bind the current functions to the sampler, as vLLM does when it creates a worker."""
    current_platform.register_triton_kernel_overrides()


def check_new_worker() -> str | None:
    """The self-check of a worker that is created with the current functions."""
    bind_to_sampler()
    return sampler_check.check_worker()


def test_stock_vllm_fails_the_self_check(kernels: Any) -> None:
    """vLLM #55005: values per draft token are not written."""
    assert "#55005" in (check_new_worker() or "")


def test_stock_vllm_accepts_padding(kernels: Any) -> None:
    """The second fault alone: -1 is looked up outside the row."""
    assert "padded" in (sampler_check._check_padding() or "")


def test_stock_vllm_fails_on_top_k_without_drafts(kernels: Any) -> None:
    """The third fault alone: the maximum over no k."""
    assert "without draft tokens" in (sampler_check._check_top_k() or "")


def test_the_fix_passes_the_self_check(kernels: Any) -> None:
    """All three functions are fixed, the third with the first call of the first."""
    assert cpu_sampler.apply()
    assert check_new_worker() is None


def test_a_fix_applied_after_the_worker_was_created_fails_the_self_check(kernels: Any) -> None:
    """The module has the fixed functions, the sampler still the stock ones."""
    assert cpu_sampler.apply()
    assert "#55005" in (sampler_check.check_worker() or "")


def test_applying_twice_wraps_once(kernels: Any) -> None:
    """vLLM loads plugins several times in one process."""
    plugin.register()
    once = [getattr(kernels, name) for name in NAMES]
    plugin.register()
    assert [getattr(kernels, name) for name in NAMES] == once


def test_a_hook_that_does_not_fit_leaves_vllm_alone(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock functions stay, with a warning; the self-check then turns drafts of samples off."""
    monkeypatch.setattr(
        checks,
        "REGISTER",
        tuple(replace(s, expected=()) if s.name == "expand_kernel" else s for s in checks.REGISTER),
    )
    stock = [getattr(kernels, name) for name in NAMES]
    assert not cpu_sampler.apply()
    assert [getattr(kernels, name) for name in NAMES] == stock
    assert check_new_worker() is not None


def test_the_plugin_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM does not catch the exceptions of plugins."""

    def explode() -> bool:
        raise RuntimeError("injected")

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


def test_a_draft_is_accepted_with_the_ratio_of_probabilities(kernels: Any) -> None:
    """The fixed function still accepts with target over draft probability: 0.2 / 0.4."""
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
