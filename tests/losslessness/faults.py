"""Faults that an engine host plants before vLLM starts, to see what Paceline makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def break_hook() -> None:
    """As if vLLM had renamed a parameter that Paceline hooks."""
    from paceline.engine.compat import checks

    checks.REGISTER = tuple(
        replace(hook, expected=("self", "renamed")) if hook.name == "schedule" else hook
        for hook in checks.REGISTER
    )


def break_policy() -> None:
    """A policy that raises on every tenth plan and every tenth observation."""
    from paceline.governor.policies.fixed import FixedPolicy

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
    """The sampler accepts drafts a little too easily: thresholds are 15 % lower than they are."""
    from vllm.utils import cpu_triton_utils

    from paceline.engine.fixes import cpu_sampler

    cpu_sampler.apply()
    mended = cpu_triton_utils._rejection_random_sample_kernel_impl

    def biased(*arguments: Any, **named: Any) -> None:
        given = list(arguments)
        given[7] = given[7] * 0.85
        mended(*given, **named)

    biased.__paceline_fix__ = True  # type: ignore[attr-defined]
    biased.__wrapped__ = mended.__wrapped__  # type: ignore[attr-defined]
    cpu_triton_utils._rejection_random_sample_kernel_impl = biased


def alternate_lengths() -> None:
    """The policy `fixed` drafts nothing for ten steps, then as asked for ten, and so on."""
    from paceline.governor.policies.fixed import FixedPolicy
    from paceline.governor.values import DraftPlan

    plan = FixedPolicy.plan
    num_plans = 0

    def alternating(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans
        num_plans += 1
        return DraftPlan(0, "planted") if num_plans // 10 % 2 == 0 else plan(self, load)

    FixedPolicy.plan = alternating  # type: ignore[method-assign]


def alternate_lengths_without_rest() -> None:
    """The same, and the draft model runs at length 0 as vLLM has it."""
    from paceline.engine.worker import resting_draft

    alternate_lengths()
    resting_draft.drafter_rests = lambda *_, **__: False


def alternate_lengths_without_catching_up() -> None:
    """The same, and after a rest the draft model goes on with what its cache holds."""
    from paceline.engine.worker.draft_coverage import DraftCoverage

    alternate_lengths()
    DraftCoverage.find_gaps = lambda *_: []  # type: ignore[method-assign]


def wander() -> None:
    """The policy `fixed` draws another length in every step, and hindsight in every tenth.

    One stretch of twelve steps in five is spent at 0, so that the draft model rests and catches up.
    """
    import random

    from paceline.governor.policies.fixed import FixedPolicy
    from paceline.governor.values import DraftPlan

    draw = random.Random(0)
    num_plans, length, is_off = 0, 0, False

    def wandering(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans, length, is_off
        if num_plans % 12 == 0:
            is_off = draw.random() < 0.2
        num_plans += 1
        others = [k for k in range(load.max_draft_length + 1) if k != length]
        length = 0 if is_off else draw.choice(others)
        looks_back = load.has_replay_scoring and num_plans % 10 == 0
        return DraftPlan(length, "planted", replay_scoring_tokens=64 if looks_back else 0)

    FixedPolicy.plan = wandering  # type: ignore[method-assign]


def plan_in_turn() -> None:
    """The policy `fixed` plans another length for every step, 0 and the maximum among them.

    What was drafted is printed to the log, one line per step that verified any draft or was asked
    for one (`engine_host.EngineHost.log`).
    """
    import json

    from paceline.governor.policies.fixed import FixedPolicy
    from paceline.governor.values import DraftPlan

    num_plans = 0

    def in_turn(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans
        num_plans += 1
        return DraftPlan((3, 0, 1, 4, 2)[num_plans % 5], "planted")

    def observe(self: FixedPolicy, sample: Any) -> None:
        found = {
            "asked": sample.requested_draft_length,
            "drafted": sample.drafted,
            "verified": sample.verified_draft_tokens,
        }
        print(f"in turn: {json.dumps(found)}", flush=True)

    FixedPolicy.plan = in_turn  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]


def look_back() -> None:
    """The policy `fixed` orders hindsight every 20 steps: 512 tokens, 48 for a request alone.

    What comes of it is printed to the log, one line per report (`engine_host.EngineHost.log`).
    """
    import json
    from dataclasses import asdict

    from paceline.governor.policies.fixed import FixedPolicy

    plan = FixedPolicy.plan
    num_plans = 0

    def looking_back(self: FixedPolicy, load: Any) -> Any:
        nonlocal num_plans
        num_plans += 1
        if num_plans % 20 or not load.has_replay_scoring:
            return plan(self, load)
        return replace(
            plan(self, load), replay_scoring_tokens=48 if load.num_requests == 1 else 512
        )

    def observe(self: FixedPolicy, sample: Any) -> None:
        if sample.replay_scores is not None:
            report = {**asdict(sample.replay_scores), "draft_length": sample.draft_length}
            print(f"in hindsight: {json.dumps(report)}", flush=True)

    FixedPolicy.plan = looking_back  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]


def fail_in_replay_scoring() -> None:
    """The same, and the second pass of the draft model raises."""
    from paceline.engine.worker import replay_predictions

    look_back()
    run_draft_model = replay_predictions.run_draft_model
    num_passes = 0

    def failing(*arguments: Any) -> Any:
        nonlocal num_passes
        num_passes += 1
        if num_passes > 1:
            raise ZeroDivisionError("planted")
        return run_draft_model(*arguments)

    replay_predictions.run_draft_model = failing


def tell_first_tokens() -> None:
    """The draft model keeps up at length 0, and is asked for its first token in every fifth step.

    What comes of it is printed to the log, one line per report (`engine_host.EngineHost.log`).
    """
    import json

    from paceline.engine.scheduler import worker_probes
    from paceline.engine.worker import first_token_probe, resting_draft
    from paceline.governor.policies.fixed import FixedPolicy

    resting_draft.drafter_rests = lambda *_, **__: False
    first_token_probe.drafter_rests = resting_draft.drafter_rests
    worker_probes.head_fraction_of_workers = _a_hundredth_of(worker_probes.head_fraction_of_workers)

    plan = FixedPolicy.plan

    def asking(self: FixedPolicy, load: Any) -> Any:
        return replace(plan(self, load), requests_first_tokens=load.has_first_token_verdicts)

    def observe(self: FixedPolicy, sample: Any) -> None:
        if sample.first_token_verdicts:
            print(f"first tokens: {json.dumps(sample.first_token_verdicts)}", flush=True)

    FixedPolicy.plan = asking  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]


def _a_hundredth_of(ask: Any) -> Any:
    """Where the workers can tell at all: as if the output layer took 1 % of a step."""
    return lambda executor: None if ask(executor) is None else 0.01


def fail_at_first_tokens() -> None:
    """The same, and the second judgement raises."""
    from paceline.engine.worker import first_token_probe

    tell_first_tokens()
    judge = first_token_probe._judge
    num_calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls > 1:
            raise ZeroDivisionError("planted")
        return judge(*arguments)

    first_token_probe._judge = failing
