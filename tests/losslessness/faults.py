"""Faults that an engine host injects before vLLM starts, and policies that a test controls.

Each function changes classes of its own process for good; an engine host calls at most one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def break_hook() -> None:
    """The register expects a parameter that vLLM does not have, as after a rename."""
    from paceline.runtime.engine.compat import checks

    checks.REGISTER = tuple(
        replace(hook, expected=("self", "renamed")) if hook.name == "schedule" else hook
        for hook in checks.REGISTER
    )


def break_policy() -> None:
    """The policy `fixed` raises on every tenth plan and every tenth observation."""
    from paceline.runtime.governor.policies.fixed import FixedPolicy

    plan, observe = FixedPolicy.plan, FixedPolicy.observe
    calls = {"plan": 0, "observe": 0}

    def failing(name: str, original: Any) -> Any:
        def call(self: FixedPolicy, value: Any) -> Any:
            calls[name] += 1
            if calls[name] % 10 == 0:
                raise ZeroDivisionError(f"injected into {name}")
            return original(self, value)

        return call

    FixedPolicy.plan = failing("plan", plan)  # type: ignore[method-assign]
    FixedPolicy.observe = failing("observe", observe)  # type: ignore[method-assign]


def alternate_lengths() -> None:
    """The policy `fixed` alternates between ten steps at length 0 and ten at its own length."""
    from paceline.runtime.governor.policies.fixed import FixedPolicy
    from paceline.runtime.governor.values import DraftPlan

    plan = FixedPolicy.plan
    num_plans = 0

    def alternating(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans
        num_plans += 1
        return DraftPlan(0, "injected") if num_plans // 10 % 2 == 0 else plan(self, load)

    FixedPolicy.plan = alternating  # type: ignore[method-assign]


def alternate_lengths_without_rest() -> None:
    """As `alternate_lengths`, and the draft model runs at length 0, as in stock vLLM."""
    from paceline.runtime.engine.worker import resting_draft

    alternate_lengths()
    resting_draft.drafter_rests = lambda *_, **__: False


def alternate_lengths_without_catching_up() -> None:
    """As `alternate_lengths`, and after a rest the draft model drafts from an incomplete cache."""
    from paceline.runtime.engine.worker.draft_coverage import DraftCoverage

    alternate_lengths()
    DraftCoverage.find_gaps = lambda *_: []  # type: ignore[method-assign]


def wander() -> None:
    """The policy `fixed` draws a new length for every step.

    One in five stretches of twelve steps is at length 0, so the draft model rests and catches up.
    """
    import random

    from paceline.runtime.governor.policies.fixed import FixedPolicy
    from paceline.runtime.governor.values import DraftPlan

    draw = random.Random(0)
    num_plans, length, is_off = 0, 0, False

    def wandering(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans, length, is_off
        if num_plans % 12 == 0:
            is_off = draw.random() < 0.2
        num_plans += 1
        others = [k for k in range(load.max_draft_length + 1) if k != length]
        length = 0 if is_off else draw.choice(others)
        return DraftPlan(length, "injected")

    FixedPolicy.plan = wandering  # type: ignore[method-assign]


def plan_in_turn() -> None:
    """The policy `fixed` plans another length for every step, 0 and the maximum included.

    One line per sample in the log (`engine_host.EngineHost.log`) reports what was drafted.
    """
    import json

    from paceline.runtime.governor.policies.fixed import FixedPolicy
    from paceline.runtime.governor.values import DraftPlan

    num_plans = 0

    def in_turn(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans
        num_plans += 1
        return DraftPlan((3, 0, 1, 4, 2)[num_plans % 5], "injected")

    def observe(self: FixedPolicy, sample: Any) -> None:
        found = {
            "asked": sample.requested_draft_length,
            "drafted": sample.drafted,
            "verified": sample.verified_draft_tokens,
        }
        print(f"in turn: {json.dumps(found)}", flush=True)

    FixedPolicy.plan = in_turn  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]
