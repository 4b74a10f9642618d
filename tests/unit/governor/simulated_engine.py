"""An engine with known truth: acceptance and cost are given, so the best length is known exactly.

It drives a policy the way the scheduler does: what is drafted in one step is verified in the next.
With `samples_late=1` a sample arrives one step later, as under asynchronous scheduling.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.governor.policy import Policy
from paceline.governor.values import EngineLoad, StepSample


@dataclass(frozen=True, slots=True)
class Truth:
    """What holds while a phase of traffic lasts."""

    num_requests: int
    accept: tuple[float, ...]
    """P(position j accepted | offered and j-1 accepted); the last one holds for all deeper."""
    offer: float = 1.0
    """P(the drafter offers anything); what it offers is then as long as asked."""
    base_s: float = 0.028
    request_s: float = 0.0013
    verify_s: float = 0.0009
    draft_pass_s: float = 0.0014
    draft_token_s: float = 0.0001

    def accept_at(self, position: int) -> float:
        return self.accept[min(position, len(self.accept)) - 1]

    def step_s(self, verified_draft_tokens: float, length: int) -> float:
        return (
            self.base_s
            + self.request_s * self.num_requests
            + self.verify_s * verified_draft_tokens
            + self.draft_pass_s * length
            + self.draft_token_s * length * self.num_requests
        )

    def tokens_per_s(self, length: int) -> float:
        """Expected, in steady state at this length."""
        survival, tokens = self.offer, 1.0
        for position in range(1, length + 1):
            survival *= self.accept_at(position)
            tokens += survival
        step_s = self.step_s(self.num_requests * self.offer * length, length)
        return self.num_requests * tokens / step_s

    def best_length(self, max_draft_length: int) -> int:
        return max(range(max_draft_length + 1), key=self.tokens_per_s)


@dataclass(frozen=True, slots=True)
class Run:
    """What came out of a simulated stretch."""

    tokens: int
    seconds: float
    lengths: tuple[int, ...]
    expected_s: float
    """The same steps without the noise of their durations."""

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


class SimulatedEngine:
    """Steps a policy through phases; deterministic for a seed."""

    def __init__(
        self, policy: Policy, max_draft_length: int, *, seed: int = 0, samples_late: int = 0
    ) -> None:
        self.policy = policy
        self._max = max_draft_length
        self._random = random.Random(seed)
        self._asked = 0
        self._samples_late = samples_late
        self._in_flight: deque[StepSample] = deque()

    def run(self, truth: Truth, num_steps: int, *, noise_fraction: float = 0.03) -> Run:
        tokens, seconds, expected_s, lengths = 0, 0.0, 0.0, []
        for _ in range(num_steps):
            plan = self.policy.plan(
                EngineLoad(
                    num_requests=truth.num_requests,
                    context_tokens=300 * truth.num_requests,
                    prefill_tokens=0,
                    num_waiting=0,
                    max_draft_length=self._max,
                )
            )
            assert 0 <= plan.draft_length <= self._max
            drafted, accepted = self._verify(truth)
            step_s = truth.step_s(sum(drafted), plan.draft_length)
            expected_s += step_s
            step_s *= self._random.lognormvariate(0.0, noise_fraction)
            self._in_flight.append(
                StepSample(
                    num_requests=truth.num_requests,
                    asked_draft_length=self._asked,
                    drafted=drafted if self._asked else (),
                    accepted=accepted if self._asked else (),
                    verified_draft_tokens=sum(drafted),
                    draft_length=plan.draft_length,
                    prefill_tokens=0,
                    context_tokens=300 * truth.num_requests,
                    duration_s=step_s,
                    is_clean=True,
                )
            )
            if len(self._in_flight) > self._samples_late:
                self.policy.observe(self._in_flight.popleft())
            self._asked = plan.draft_length
            tokens += truth.num_requests + sum(accepted)
            seconds += step_s
            lengths.append(plan.draft_length)
        return Run(tokens, seconds, tuple(lengths), expected_s)

    def _verify(self, truth: Truth) -> tuple[tuple[int, ...], tuple[int, ...]]:
        drafted, accepted = [], []
        for _ in range(truth.num_requests):
            offered = self._asked if self._random.random() < truth.offer else 0
            num_accepted = 0
            while num_accepted < offered and self._random.random() < truth.accept_at(
                num_accepted + 1
            ):
                num_accepted += 1
            drafted.append(offered)
            accepted.append(num_accepted)
        return tuple(drafted), tuple(accepted)


def share_of_best(run: Run, truth: Truth, max_draft_length: int) -> float:
    """Tokens per second of the run over those of the best fixed length."""
    return run.tokens_per_s / truth.tokens_per_s(truth.best_length(max_draft_length))


def with_requests(truth: Truth, num_requests: int) -> Truth:
    return replace(truth, num_requests=num_requests)


PolicyMaker = Callable[[], Policy]
Phases = Sequence[tuple[Truth, int]]
