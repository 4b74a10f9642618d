"""Faults that an engine host plants before vLLM starts, to see what Paceline makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def break_seam() -> None:
    """As if vLLM had renamed a parameter that Paceline hooks."""
    from paceline.engine import seams

    seams.REGISTER = tuple(
        replace(seam, expected=("self", "renamed")) if seam.name == "schedule" else seam
        for seam in seams.REGISTER
    )


def break_policy() -> None:
    """A policy that raises on every tenth plan and every tenth observation."""
    from paceline.governor.fixed import FixedPolicy

    plan, observe = FixedPolicy.plan, FixedPolicy.observe
    calls = {"plan": 0, "observe": 0}

    def failing(name: str, original: Any) -> Any:
        def call(self: FixedPolicy, value: Any) -> Any:
            calls[name] += 1
            if calls[name] % 10 == 0:
                raise ZeroDivisionError(f"planted in {name}")
            return original(self, value)

        return call

    FixedPolicy.plan = failing("plan", plan)  # type: ignore[method-assign]
    FixedPolicy.observe = failing("observe", observe)  # type: ignore[method-assign]


def bias_acceptance() -> None:
    """The sampler accepts drafts a little too easily: thresholds are 30 % lower than they are."""
    from vllm.utils import cpu_triton_utils

    from paceline.engine import sampler_repair

    sampler_repair.apply()
    mended = cpu_triton_utils._rejection_random_sample_kernel_impl

    def biased(*arguments: Any, **named: Any) -> None:
        given = list(arguments)
        given[7] = given[7] * 0.7
        mended(*given, **named)

    biased.__paceline_repair__ = True  # type: ignore[attr-defined]
    biased.__wrapped__ = mended.__wrapped__  # type: ignore[attr-defined]
    cpu_triton_utils._rejection_random_sample_kernel_impl = biased
