"""Machines of the replay: two models on two CPU cores, two GPU rooflines, or any measured table.

The twin's figures are fitted to recorded steps. The bundled pair's are a table that its engine
measured at its start (`bundled-pair.json`): its steps are so short that drafting is seldom worth
it. Those named after GPUs are the policy simulator's profiles, derived from data sheets. Graph
sizes are left out, so every draft length is allowed and a step costs by its tokens alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from paceline.foundation.capacity.cost_table import CostTable
from paceline.testing.policy_simulator.machines.cost import CostFunction, StepShape
from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.machines.roofline import RooflineCost

_CATCH_UP_TOKEN_S = 0.00002


@dataclass(frozen=True, slots=True)
class TwinCost:
    """Step time of the twin on two cores; the first draft pass costs more than the others.

        seconds = base + request * n + [verifies] * judge + token * verified
                  + [drafts] * first_pass + (passes - 1) * further_pass + draft_request * n * passes
                  + catch_up * missed

    Least squares over the medians of the 1, 4, 16 and 32 requests' steps in
    benchmarks/results/governor-interleaved-twin-model-trace-2026-11-22{,-2,-3}.json.gz; cells err
    by 5 % on average. The catch-up is that of the simulator's profile `cpu-twin`.
    """

    base_s: float = 0.0456
    request_s: float = 0.002185
    judge_s: float = 0.00396
    token_s: float = 0.001775
    first_pass_s: float = 0.00396
    further_pass_s: float = 0.003714
    draft_request_s: float = 0.000389
    catch_up_token_s: float = _CATCH_UP_TOKEN_S

    def step_s(self, shape: StepShape) -> float:
        num_requests, passes = shape.num_requests, shape.draft_passes
        seconds = self.base_s + self.request_s * num_requests
        if shape.verified_draft_tokens > 0:
            seconds += self.judge_s + self.token_s * shape.verified_draft_tokens
        if passes > 0:
            seconds += self.first_pass_s + (passes - 1) * self.further_pass_s
            seconds += self.draft_request_s * num_requests * passes
        return seconds + self.catch_up_token_s * shape.catch_up_tokens


@dataclass(frozen=True, slots=True)
class TableCost:
    """Step time by a measured table. The catch-up, which no table has, is that of `TwinCost`."""

    table: CostTable

    def step_s(self, shape: StepShape) -> float:
        return _CATCH_UP_TOKEN_S * shape.catch_up_tokens + self.table.step_s(
            shape.num_requests,
            verified_tokens=shape.verified_draft_tokens,
            draft_length=shape.draft_passes,
        )


DraftingMode = Literal["lengths", "early"]
"""What a policy chooses: one length for all requests, or when drafting ends and how many drafts of
each request are verified."""
DRAFTING_MODES: tuple[DraftingMode, ...] = ("lengths", "early")


@dataclass(frozen=True, slots=True)
class Machine:
    """A cost function under a name, with the loads that it is evaluated at."""

    name: str
    cost: CostFunction
    loads: tuple[int, int, int, int]
    """Numbers of requests: lowest, low, high, highest."""
    context_tokens: int
    """Tokens in the KV cache of each request, the same throughout."""
    rests: bool
    """True if the draft model does not run at draft length 0 and has to catch up afterwards; else
    it runs once, to keep its KV cache current."""
    mode: DraftingMode
    """What the engine lets a policy choose, where an arm does not say otherwise."""

    def step_s(
        self,
        num_requests: int,
        verified_tokens: int,
        draft_length: int,
        *,
        catch_up_tokens: int = 0,
    ) -> float:
        """Seconds of a step that verifies `verified_tokens` draft tokens in all and drafts
        `draft_length` for each request."""
        return self.cost.step_s(
            StepShape(
                num_requests=num_requests,
                verified_draft_tokens=verified_tokens,
                prefill_tokens=0,
                context_tokens=self.context_tokens * num_requests,
                draft_passes=draft_length if self.rests else max(draft_length, 1),
                catch_up_tokens=catch_up_tokens,
            )
        )


MACHINES = ("cpu-twin", "bundled-pair", "7b-h200", "72b-tp8-h100")
_BUNDLED = Path(__file__).with_name("bundled-pair.json")


def build_machine(name: str) -> Machine:
    """The machine called `name`, one of `MACHINES`."""
    if name == "cpu-twin":
        loads = (1, 4, 16, 32)
        return Machine(name, TwinCost(), loads, context_tokens=250, rests=True, mode="early")
    if name == "bundled-pair":
        return replace(measured_machine(_BUNDLED), name=name)
    if name not in MACHINES:
        raise ValueError(f"machine is {name!r}; it must be one of {', '.join(MACHINES)}")
    cost = load_profile(name).machine.cost
    assert isinstance(cost, RooflineCost)
    without_graphs = replace(cost, graphs=NO_GRAPHS)
    loads = (1, 8, 64, 192)
    return Machine(name, without_graphs, loads, context_tokens=600, rests=False, mode="lengths")


def measured_machine(file: Path) -> Machine:
    """The CPU machine with the costs of this file, which an engine stored; its name is `measured`.

    Raises OSError, ValueError, TypeError or KeyError for another kind of file.
    """
    table = msgspec.convert(json.loads(file.read_text(encoding="utf-8"))["table"], CostTable)
    return replace(build_machine("cpu-twin"), name="measured", cost=TableCost(table))


def cost_table(
    machine: Machine,
    sizes: Sequence[int],
    lengths: Sequence[int],
    *,
    verify_error: float = 0.0,
    draft_error: float = 0.0,
    cell_noise: float = 0.0,
    seed: int = 0,
) -> CostTable:
    """The table that a calibration of this machine would measure, with the errors asked for.

    `verify_error` is a fraction of what verifying adds to a step without drafts, `draft_error` one
    of what drafting adds; 0.2 is 20 % too much. `cell_noise` is the sigma of an independent
    log-normal factor on every entry.
    """
    random = np.random.default_rng([seed, 1])

    def noisy(seconds: float) -> float:
        return seconds * math.exp(cell_noise * random.standard_normal())

    verify, draft = [], []
    for size in sizes:
        plain_s = machine.step_s(size, 0, 0)
        verified_s = [machine.step_s(size, size * length, 0) for length in lengths]
        drafted_s = [machine.step_s(size, size * length, length) for length in lengths]
        verify.append(
            tuple(noisy(plain_s + (1.0 + verify_error) * (s - plain_s)) for s in verified_s)
        )
        draft.append(
            tuple(
                noisy((1.0 + draft_error) * (with_s - without_s))
                for with_s, without_s in zip(drafted_s, verified_s, strict=True)
            )
        )
    return CostTable(
        tuple(sizes), tuple(lengths), tuple(verify), tuple(draft), machine.context_tokens
    )


class MeasuredNoise:
    """What a policy measures of a step's duration, as noisy as on the two-core machine.

    Within runs of one draft length there, the logarithm of a step's time has a robust standard
    deviation of 0.10, 3 % of the steps take 1.4 times their run's median or more, and the medians
    of runs in equal conditions differ by 0.09. Hence here: 0.08 from step to step, 3 % of the steps
    longer by 60 %, and a slow walk of 0.10 with a memory of 200 steps.
    """

    STEP_SIGMA = 0.08
    STALL_CHANCE = 0.03
    STALL_FACTOR = 1.6
    WALK_SIGMA = 0.10
    WALK_MEMORY = 0.995

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._walk = 0.0

    def measure(self, seconds: float) -> float:
        """The measured duration of a step that took `seconds`. Moves the walk by one step."""
        innovation = self.WALK_SIGMA * math.sqrt(1 - self.WALK_MEMORY**2)
        self._walk = self.WALK_MEMORY * self._walk + innovation * self._random.standard_normal()
        measured = seconds * math.exp(self._walk + self.STEP_SIGMA * self._random.standard_normal())
        return measured * (self.STALL_FACTOR if self._random.random() < self.STALL_CHANCE else 1.0)
