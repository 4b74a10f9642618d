"""The arms on the policy simulator's GPU profile: the dry run of `governor_without_weights.py`."""

from __future__ import annotations

import math
from dataclasses import replace

from benchmarks.gpu.phases import LoadPhase, Turn
from paceline.governor.policy import Policy
from paceline.policy_registry import create_policy, load_policies
from paceline.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.policy_simulator.machines.profiles import load_profile
from paceline.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

_ENDLESS = Lengths(10**6, 10**6)


class SimulatedRunner:
    """Runs arms in virtual time."""

    def __init__(self, profile: str = "7b-h200") -> None:
        load_policies()
        self._machine = load_profile(profile).machine
        self._policies: dict[str, Policy] = {}

    def allowed_lengths(self) -> tuple[int, ...]:
        """See `ArmRunner`."""
        return self._machine.lengths

    def run(self, arm: str, phase: LoadPhase, num_steps: int, repeat: int) -> Turn:
        """See `ArmRunner`."""
        machine = self._machine.without_speculation() if arm == "none" else self._machine
        engine = SimulatedEngine(machine, self._policy(arm), seed=repeat)
        prompts = Lengths(phase.context_tokens, phase.context_tokens)
        kind = TrafficClass("text", prompts, _ENDLESS, DraftTruth((phase.acceptance,)))
        load = ClosedLoop(phase.num_requests)
        budget = self._machine.token_budget
        prefill = 2 + math.ceil(phase.num_requests * phase.context_tokens / budget)
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
        )

    def _policy(self, arm: str) -> Policy:
        if arm not in self._policies:
            ceiling = self._machine.max_draft_length
            if arm == "none":
                self._policies[arm] = create_policy("off", max_draft_length=ceiling)
            elif arm.startswith("K="):
                length = int(arm.removeprefix("K="))
                self._policies[arm] = create_policy(
                    "fixed", max_draft_length=ceiling, draft_length=length
                )
            else:
                self._policies[arm] = create_policy(arm, max_draft_length=ceiling)
        return self._policies[arm]
