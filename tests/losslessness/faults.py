"""Faults that an engine host injects before vLLM starts, and policies that a test controls.

Each function changes classes of its own process for good; an engine host calls at most one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def break_hook() -> None:
    """The register expects a parameter that vLLM does not have, as after a rename."""
    from paceline.engine.compat import checks

    checks.REGISTER = tuple(
        replace(hook, expected=("self", "renamed")) if hook.name == "schedule" else hook
        for hook in checks.REGISTER
    )


def break_policy() -> None:
    """The policy `fixed` raises on every tenth plan and every tenth observation."""
    from paceline.governor.policies.fixed import FixedPolicy

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
    from paceline.governor.policies.fixed import FixedPolicy
    from paceline.governor.values import DraftPlan

    plan = FixedPolicy.plan
    num_plans = 0

    def alternating(self: FixedPolicy, load: Any) -> DraftPlan:
        nonlocal num_plans
        num_plans += 1
        return DraftPlan(0, "injected") if num_plans // 10 % 2 == 0 else plan(self, load)

    FixedPolicy.plan = alternating  # type: ignore[method-assign]


def alternate_lengths_without_rest() -> None:
    """As `alternate_lengths`, and the draft model runs at length 0, as in stock vLLM."""
    from paceline.engine.worker import resting_draft

    alternate_lengths()
    resting_draft.drafter_rests = lambda *_, **__: False


def alternate_lengths_without_catching_up() -> None:
    """As `alternate_lengths`, and after a rest the draft model drafts from an incomplete cache."""
    from paceline.engine.worker.draft_coverage import DraftCoverage

    alternate_lengths()
    DraftCoverage.find_gaps = lambda *_: []  # type: ignore[method-assign]


def wander() -> None:
    """The policy `fixed` draws a new length for every step and scores replays in every tenth.

    One in five stretches of twelve steps is at length 0, so the draft model rests and catches up.
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
        scores_replays = load.has_replay_scoring and num_plans % 10 == 0
        return DraftPlan(length, "injected", replay_scoring_tokens=64 if scores_replays else 0)

    FixedPolicy.plan = wandering  # type: ignore[method-assign]


def plan_in_turn() -> None:
    """The policy `fixed` plans another length for every step, 0 and the maximum included.

    One line per sample in the log (`engine_host.EngineHost.log`) reports what was drafted.
    """
    import json

    from paceline.governor.policies.fixed import FixedPolicy
    from paceline.governor.values import DraftPlan

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


def score_replays() -> None:
    """The policy `fixed` orders replay scoring every 20 steps: 512 tokens, 48 for a single request.

    Each report is a line of the log (`engine_host.EngineHost.log`).
    """
    import json
    from dataclasses import asdict

    from paceline.governor.policies.fixed import FixedPolicy

    plan = FixedPolicy.plan
    num_plans = 0

    def scoring_replays(self: FixedPolicy, load: Any) -> Any:
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
            print(f"replay scores: {json.dumps(report)}", flush=True)

    FixedPolicy.plan = scoring_replays  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]


def slow_down_replay_recording() -> None:
    """As `score_replays`, and each recording of target probabilities takes 4 ms longer.

    Each sample of a step that recorded some is a line of the log.
    """
    import json
    import time

    from paceline.engine.worker import replay_scoring_pass
    from paceline.governor.policies.fixed import FixedPolicy

    score_replays()
    observe = FixedPolicy.observe
    probs_before_sampling = replay_scoring_pass.probs_before_sampling
    recorded_s = 0.0

    def slowed_down(*arguments: Any) -> Any:
        nonlocal recorded_s
        started_s = time.perf_counter()
        probs = probs_before_sampling(*arguments)
        if probs is not None:
            # sleep: the injected fault is that this takes time
            time.sleep(0.004)
            recorded_s = time.perf_counter() - started_s
        return probs

    def observe_and_report(self: FixedPolicy, sample: Any) -> None:
        nonlocal recorded_s
        if recorded_s:
            found = {"seconds": recorded_s, "is_clean": sample.is_clean}
            print(f"recorded: {json.dumps(found)}", flush=True)
            recorded_s = 0.0
        observe(self, sample)

    replay_scoring_pass.probs_before_sampling = slowed_down
    FixedPolicy.observe = observe_and_report  # type: ignore[method-assign]


def fail_in_replay_scoring() -> None:
    """As `score_replays`, and the second pass of the draft model raises."""
    from paceline.engine.worker import replay_predictions

    score_replays()
    run_draft_model = replay_predictions.run_draft_model
    num_passes = 0

    def failing(*arguments: Any) -> Any:
        nonlocal num_passes
        num_passes += 1
        if num_passes > 1:
            raise ZeroDivisionError("injected")
        return run_draft_model(*arguments)

    replay_predictions.run_draft_model = failing


def compare_first_tokens() -> None:
    """The draft model keeps up at length 0; its first token is compared in every fifth step.

    Each report is a line of the log (`engine_host.EngineHost.log`).
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
    """The output layer seems to take 1 % of a step, if the workers can compare first tokens."""
    return lambda executor: None if ask(executor) is None else 0.01


def fail_comparing_first_tokens() -> None:
    """As `compare_first_tokens`, and the second comparison raises."""
    from paceline.engine.worker import first_token_probe

    compare_first_tokens()
    judge = first_token_probe._judge
    num_calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls > 1:
            raise ZeroDivisionError("injected")
        return judge(*arguments)

    first_token_probe._judge = failing
