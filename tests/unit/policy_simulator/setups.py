"""Small machines and traffic for the simulator's tests."""

from __future__ import annotations

from typing import Any

from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Disturbance, Drafter, Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

QUIET = Disturbance(noise_fraction=0.0)


def linear(**changes: Any) -> LinearCost:
    """10 ms, 1 ms a request, 2 ms a further token, 3 ms a draft pass."""
    figures: dict[str, Any] = {
        "base_s": 0.010,
        "request_s": 0.001,
        "judge_s": 0.0,
        "token_s": 0.002,
        "context_ktoken_s": 0.0,
        "draft_pass_s": 0.003,
        "draft_request_s": 0.0,
    }
    return LinearCost(**(figures | changes))


def machine(
    drafter: Drafter = "stateless",
    *,
    cost: LinearCost | None = None,
    is_async: bool = False,
    max_draft_length: int = 8,
    max_num_seqs: int = 64,
    token_budget: int = 512,
) -> Machine:
    return Machine(
        cost=linear() if cost is None else cost,
        max_draft_length=max_draft_length,
        max_num_seqs=max_num_seqs,
        token_budget=token_budget,
        drafter=drafter,
        is_async=is_async,
    )


def text(
    *hazards: float,
    prompt: tuple[int, int] = (1, 1),
    output: tuple[int, int] = (100, 200),
    name: str = "text",
    weight: float = 1.0,
    spread: float = 0.0,
    match: tuple[float, float] = (1.0, 1.0),
) -> TrafficClass:
    truth = DraftTruth(hazards, spread=spread, match_start=match[0], match_stay=match[1])
    return TrafficClass(name, Lengths(*prompt), Lengths(*output), truth, weight)


def steps(num_steps: int, num_requests: int, *kinds: TrafficClass) -> Phase:
    return Phase("steps", ClosedLoop(num_requests), kinds, num_steps=num_steps)


class Recorder:
    """Holds a length, or goes through several in turn, and remembers all it was shown."""

    def __init__(self, *lengths: int) -> None:
        self._lengths = lengths
        self.loads: list[EngineLoad] = []
        self.samples: list[StepSample] = []
        self.calls: list[str] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.calls.append("plan")
        self.loads.append(load)
        step = len(self.loads) - 1
        length = self._lengths[step % len(self._lengths)]
        return DraftPlan(min(length, load.max_draft_length), "recorded")

    def observe(self, sample: StepSample) -> None:
        self.calls.append("observe")
        self.samples.append(sample)
