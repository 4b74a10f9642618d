"""Wrong samplers, injected into a running engine; `restore` takes them all out again.

They replace functions that the sampler looks up at every call, below the methods that `recorder`
wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_replaced: list[tuple[Any, str, Any]] = []


def restore() -> None:
    """Put vLLM's own functions back."""
    while _replaced:
        owner, name, stock = _replaced.pop()
        setattr(owner, name, stock)


def scale_thresholds(factor: float) -> None:
    """Acceptance thresholds are `factor` times what they should be; below 1 accepts too much."""

    def scaled(stock: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: stock(*arguments, **named) * factor

    _replace_in_sampler("generate_uniform_probs", scaled)


def scale_verified_temperatures(factor: float) -> None:
    """Verified positions are scaled by `factor` times the temperature; all others are right."""
    import torch

    def scaled(stock: Callable[..., Any]) -> Callable[..., Any]:
        def expand(values: Any, *arguments: Any, **named: Any) -> Any:
            expanded = stock(values, *arguments, **named)
            is_temperature = values.dtype == torch.float32 and "replace_to" in named
            return expanded * factor if is_temperature else expanded

        return expand

    _replace_in_sampler("expand_batch_to_tokens", scaled)


def replace_rejected_by_any() -> None:
    """The token after a rejection comes from the target's distribution, not from the residual."""
    import torch

    def unconditional(stock: Callable[..., Any]) -> Callable[..., Any]:
        def sample(*arguments: Any) -> Any:
            given = list(arguments)
            given[4] = torch.zeros_like(given[5])
            return stock(*given)

        return sample

    _replace_in_sampler("sample_recovered_tokens", unconditional)


def scale_plain_temperatures(factor: float) -> None:
    """Bonus tokens and tokens of steps without drafts are sampled too warm or too cold."""
    from vllm.v1.sample.sampler import Sampler

    stock = Sampler.apply_temperature

    def scaled(logits: Any, temperature: Any, all_random: bool) -> Any:
        return stock(logits, temperature * factor, all_random)

    _replaced.append((Sampler, "apply_temperature", staticmethod(stock)))
    Sampler.apply_temperature = staticmethod(scaled)  # type: ignore[method-assign]


def lose_draft_probs() -> None:
    """Sampled drafts are verified as if the drafter had been certain of them."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    _replaced.append((runner, "_get_spec_decode_draft_probs", runner._get_spec_decode_draft_probs))
    runner._get_spec_decode_draft_probs = lambda *_: None


def _replace_in_sampler(
    name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    from vllm.v1.sample import rejection_sampler

    stock = getattr(rejection_sampler, name)
    _replaced.append((rejection_sampler, name, stock))
    setattr(rejection_sampler, name, make(stock))
