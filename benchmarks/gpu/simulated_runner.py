"""The arms on the policy simulator's GPU profile: the dry run of `governor_without_weights.py`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.governor.peers.sglang_ema import POLICY as SGLANG_EMA
from benchmarks.gpu.engine_kinds import MAX_DRAFT_LENGTH, EngineKind
from benchmarks.gpu.phases import LoadPhase, Turn
from paceline.runtime.governor.policy import Policy
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.simulated_step import SimulatedStep
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import GraphSizes
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.machines.roofline import RooflineCost
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

_ENDLESS = Lengths(10**6, 10**6)


class SimulatedRunner:
    """Runs the arms of one engine in virtual time.

    As on GPUs, policies are given no table of costs: none is measured under Model Runner V2.
    """

    def __init__(self, kind: EngineKind, profile: str = "7b-h200") -> None:
        machine = replace(load_profile(profile).machine, max_draft_length=MAX_DRAFT_LENGTH)
        if kind.trims:
            machine = _with_graphs_for_all_lengths(machine)
        self._machine = machine if kind.drafts else machine.without_speculation()
        self._trims = kind.trims
        self._policies: dict[str, Policy] = {}

    def allowed_lengths(self) -> tuple[int, ...]:
        """See `ArmRunner`."""
        return self._machine.lengths

    def run(self, arm: str, phase: LoadPhase, num_steps: int, repeat: int) -> Turn:
        """See `ArmRunner`."""
        machine, policy = self._machine, self._policy(arm)
        engine = (
            TrimmingEngine(machine, policy, seed=repeat, acceptance=phase.acceptance)
            if self._trims
            else SimulatedEngine(machine, policy, seed=repeat)
        )
        prompts = Lengths(phase.context_tokens, phase.context_tokens)
        kind = TrafficClass("text", prompts, _ENDLESS, DraftTruth((phase.acceptance,)))
        load = ClosedLoop(phase.num_requests)
        prefill = 2 + math.ceil(phase.num_requests * phase.context_tokens / machine.token_budget)
        served = Phase(phase.name, load, (kind,), num_steps=prefill)
        engine.run(served)
        log = engine.run(replace(served, num_steps=num_steps))
        return Turn(
            arm=arm,
            phase=phase.name,
            repeat=repeat,
            output_tokens=int(log.output_tokens.sum()),
            seconds=log.seconds,
            lengths=tuple(log.draft_length.tolist()),
            verified_tokens=int(log.drafted_tokens.sum()),
            accepted_tokens=int(log.accepted_tokens.sum()),
        )

    def _policy(self, arm: str) -> Policy:
        if arm not in self._policies:
            self._policies[arm] = _build_policy(arm)
        return self._policies[arm]


class TrimmingEngine(SimulatedEngine):
    """Verifies only the first tokens of every draft, as adaptive verification does if all requests
    are equally likely to accept:

        argmax over width <= drafted of requests * (1 + sum of survival) / seconds(width)
    """

    def __init__(self, machine: Machine, policy: Policy, *, seed: int, acceptance: float) -> None:
        super().__init__(machine, policy, seed=seed)
        self._acceptance = acceptance

    def _schedule(self, ceiling: int) -> SimulatedStep | None:
        step = super()._schedule(ceiling)
        if step is None or not step.num_verified:
            return step
        widths = np.minimum(step.verified, self._best_width(step))
        left_out = step.verified - widths
        self._batch.computed[step.slots] -= left_out
        return replace(
            step,
            scheduled=step.scheduled - left_out,
            verified=widths,
            num_verified=int(widths.sum()),
            # As the governor's books have it: what was left out is not judged.
            requested=np.minimum(step.requested, widths),
        )

    def _best_width(self, step: SimulatedStep) -> int:
        drafted = int(step.verified.max())
        rates = []
        tokens = 0.0
        for width in range(drafted + 1):
            tokens += self._acceptance**width
            shape = StepShape(
                num_requests=len(step.slots),
                verified_draft_tokens=len(step.slots) * width,
                prefill_tokens=0,
                context_tokens=step.load.context_tokens,
                draft_passes=self._machine.draft_passes(step.draft_length),
            )
            rates.append(tokens / self._machine.cost.step_s(shape))
        return int(np.argmax(rates))


def _build_policy(arm: str) -> Policy:
    if arm == SGLANG_EMA.name:
        return SGLANG_EMA.build(max_draft_length=MAX_DRAFT_LENGTH, parameters={})
    if arm == "none":
        return create_policy("off", max_draft_length=MAX_DRAFT_LENGTH)
    if arm == "adaptive" or arm.startswith("K="):
        length = MAX_DRAFT_LENGTH if arm == "adaptive" else int(arm.removeprefix("K="))
        return create_policy("fixed", max_draft_length=MAX_DRAFT_LENGTH, draft_length=length)
    return create_policy(arm.removesuffix("+adaptive"), max_draft_length=MAX_DRAFT_LENGTH)


def _with_graphs_for_all_lengths(machine: Machine) -> Machine:
    """With adaptive verification vLLM captures graphs of the target for any mix of lengths."""
    cost = machine.cost
    assert isinstance(cost, RooflineCost)
    return replace(machine, cost=replace(cost, graphs=GraphSizes(cost.graphs.sizes)))
