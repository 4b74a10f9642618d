"""A replica with round figures: as the planner sees it, event by event, and in the simulator.

The events are a truth of their own: they share no code with the planner or the policy simulator.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from paceline.foundation.planning.decisions.waits import SlotUse
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import (
    DraftTruth,
    Lengths,
    OpenLoop,
    Phase,
    TrafficClass,
)


@dataclass(frozen=True, slots=True)
class ServedReplica:
    """An engine without speculation whose requests are all alike."""

    prompt_tokens: int
    output_tokens: int
    prompt_s: float
    """To compute one prompt."""
    step_s: float
    """Of a decode step without requests; each adds `request_s`."""
    request_s: float
    token_budget: int
    num_slots: int

    @property
    def uses(self) -> list[SlotUse]:
        """At 1, 2, 4, … requests and with all slots in use."""
        sizes = [2**power for power in range(10) if 2**power < self.num_slots]
        return [self.slot_use(size) for size in (*sizes, self.num_slots)]

    @property
    def served_per_s(self) -> float:
        """Requests per second with all slots in use."""
        return self.uses[-1].requests_per_s

    def slot_use(self, num_requests: int) -> SlotUse:
        """As `plan` computes it from the times of a step and of a prompt."""
        step_s = self.step_s + self.request_s * num_requests
        rate = 1.0 / (self.prompt_s + self.output_tokens * step_s / num_requests)
        steps = self.prompt_tokens / (self.token_budget - num_requests)
        return SlotUse(num_requests, rate, self.prompt_s, step_s, steps)

    def event_by_event(self, arrivals_per_s: float, num_requests: int, seed: int) -> list[float]:
        """Times to first token of Poisson arrivals, ascending; no request waits for a slot."""
        draw = random.Random(seed)
        now_s, arrival_s, step, decoding = 0.0, draw.expovariate(arrivals_per_s), 0, 0
        waiting: deque[list[float]] = deque()  # [arrival, tokens left]
        ends: dict[int, int] = {}  # step to the number of answers that end with it
        found: list[float] = []
        while len(found) < num_requests:
            while arrival_s <= now_s:
                waiting.append([arrival_s, self.prompt_tokens])
                arrival_s += draw.expovariate(arrivals_per_s)
            if not waiting and not decoding:
                now_s = arrival_s
                continue
            room = float(self.token_budget - decoding)
            computed = 0.0
            for prompt in waiting:
                chunk = min(room, prompt[1])
                prompt[1] -= chunk
                room -= chunk
                computed += chunk
                if room == 0:
                    break
            now_s += computed / self.prompt_tokens * self.prompt_s
            if decoding:
                now_s += self.step_s + self.request_s * decoding
            while waiting and waiting[0][1] == 0:
                found.append(now_s - waiting.popleft()[0])
                ends[step + self.output_tokens] = ends.get(step + self.output_tokens, 0) + 1
                decoding += 1
            decoding -= ends.pop(step, 0)
            step += 1
        # The first tenth starts with an empty engine.
        return sorted(found[num_requests // 10 :])

    def in_policy_simulator(
        self, arrivals_per_s: float, num_requests: int, seed: int
    ) -> list[float]:
        """Times to first token of about `num_requests` Poisson arrivals, ascending."""
        cost = LinearCost(
            base_s=self.step_s,
            request_s=self.request_s,
            judge_s=0.0,
            token_s=self.prompt_s / self.prompt_tokens,
            context_ktoken_s=0.0,
            draft_pass_s=0.0,
            draft_request_s=0.0,
        )
        machine = Machine(
            cost=cost,
            max_draft_length=0,
            max_num_seqs=8 * self.num_slots,
            token_budget=self.token_budget,
            drafter="none",
            is_async=False,
        )
        kind = TrafficClass(
            "alike",
            prompt_tokens=Lengths(self.prompt_tokens, self.prompt_tokens),
            output_tokens=Lengths(self.output_tokens, self.output_tokens),
            truth=DraftTruth((0.0,)),
        )
        load = OpenLoop(arrivals_per_s)
        phase = Phase("steady", load, (kind,), duration_s=num_requests / arrivals_per_s)
        quiet = Disturbance(noise_fraction=0.0)
        log = SimulatedEngine(machine, HeldLength(0), seed=seed, disturbance=quiet).run(phase)
        found: list[float] = log.first_token_s[num_requests // 10 :].tolist()
        return sorted(found)


def quantile(ascending: list[float], share: float) -> float:
    """The value that a share of the values does not exceed."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
