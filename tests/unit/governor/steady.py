"""Endless requests in the simulator, for tests that count steps: nothing ends, nothing is random
but acceptance and a little noise of the durations.
"""

from __future__ import annotations

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.policy import Policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.oracle import Rate, best_rate, steady_rates
from paceline.testing.policy_simulator.machines.cost import LinearCost, StepShape
from paceline.testing.policy_simulator.machines.machine import Drafter, Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

MAX = 8
EASY, MIDDLING, HARD = DraftTruth((0.85,)), DraftTruth((0.6,)), DraftTruth((0.2,))
_ENDLESS = 10**9

# The measured proportions of a 139M target, and of a small one where drafting is expensive.
LARGE = LinearCost(
    base_s=0.028,
    request_s=0.0013,
    judge_s=0.0,
    token_s=0.0009,
    context_ktoken_s=0.0,
    draft_pass_s=0.0014,
    draft_request_s=0.0001,
)
SMALL = LinearCost(
    base_s=0.005,
    request_s=0.0002,
    judge_s=0.0,
    token_s=0.0001,
    context_ktoken_s=0.0,
    draft_pass_s=0.002,
    draft_request_s=0.00001,
)


def hazard(*hazards: float) -> DraftTruth:
    """Text of which each draft token is accepted with these chances, by position."""
    return DraftTruth(hazards)


def measured_table(cost: LinearCost, *, drafts_free: bool = False) -> CostTable:
    """The table that a calibration of an engine with these costs would measure."""
    sizes, lengths = (1, 4, 16, 64), (0, 1, 2, 4, 8)

    def verify_s(num_requests: int, length: int) -> float:
        return cost.step_s(StepShape(num_requests, num_requests * length, 0, 0, 0))

    def draft_s(num_requests: int, length: int) -> float:
        shape = StepShape(num_requests, 0, 0, 0, 0 if drafts_free else length)
        return cost.step_s(shape) - verify_s(num_requests, 0)

    return CostTable(
        sizes,
        lengths,
        tuple(tuple(verify_s(n, length) for length in lengths) for n in sizes),
        tuple(tuple(draft_s(n, length) for length in lengths) for n in sizes),
    )


class SteadyEngine:
    """Steps a policy; the number of requests and the text may change from one run to the next."""

    def __init__(
        self,
        policy: Policy,
        cost: LinearCost = LARGE,
        *,
        seed: int = 0,
        is_async: bool = False,
        drafter: Drafter = "stateless",
        output_tokens: int = _ENDLESS,
    ) -> None:
        self._machine = Machine(
            cost,
            max_draft_length=MAX,
            max_num_seqs=64,
            token_budget=4096,
            drafter=drafter,
            is_async=is_async,
        )
        self._engine = SimulatedEngine(self._machine, policy, seed=seed)
        self._output_tokens = output_tokens

    def run(self, num_requests: int, truth: DraftTruth, num_steps: int) -> StepLog:
        """`num_steps` steps with that many requests; those there already stay."""
        return self._engine.run(self._phase(num_requests, truth, num_steps))

    def lengths(self, num_requests: int, truth: DraftTruth, num_steps: int) -> list[int]:
        """The same, as the draft lengths planned."""
        planned: list[int] = self.run(num_requests, truth, num_steps).draft_length.tolist()
        return planned

    def rates(self, num_requests: int, truth: DraftTruth) -> list[Rate]:
        """What the oracle expects of each draft length."""
        return steady_rates(self._phase(num_requests, truth, 1), num_requests, self._machine)

    def best_length(self, num_requests: int, truth: DraftTruth) -> int:
        """The draft length that yields most, by the oracle."""
        phase = self._phase(num_requests, truth, 1)
        return best_rate(phase, num_requests, self._machine).draft_length

    def share_of_best(self, log: StepLog, num_requests: int, truth: DraftTruth) -> float:
        """Tokens per second that the lengths of the run yield on average, over the best length's.

        From the truth, so no luck is in it.
        """
        rates = self.rates(num_requests, truth)
        planned = [rates[length] for length in log.draft_length.tolist()]
        tokens = sum(rate.tokens_per_step for rate in planned)
        seconds = sum(rate.step_s for rate in planned)
        return tokens / seconds / max(rate.tokens_per_s for rate in rates)

    def _phase(self, num_requests: int, truth: DraftTruth, num_steps: int) -> Phase:
        output = Lengths(max(self._output_tokens // 2, 1), self._output_tokens)
        if self._output_tokens == _ENDLESS:
            output = Lengths(_ENDLESS, _ENDLESS)
        kind = TrafficClass("text", Lengths(2, 2), output, truth)
        load = ClosedLoop(num_requests, hangs_up=True)
        return Phase("steady", load, (kind,), num_steps=num_steps)
