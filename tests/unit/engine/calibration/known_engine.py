"""An engine whose steps take a known time, with its own clock."""

from __future__ import annotations

from paceline.runtime.engine.calibration.plan import EngineLimits

LIMITS = EngineLimits(
    max_requests=16,
    max_draft_length=8,
    max_step_tokens=2048,
    max_request_tokens=4096,
    num_blocks=1000,
    block_tokens=128,
)


class KnownEngine:
    """A step of n requests takes n ms, and n ms for each token that it verifies or drafts of each;
    each token of context beyond 256 adds 1 µs to the target and 0.5 µs to each draft pass."""

    def __init__(self, *, times: float = 1.0) -> None:
        self.now_s = 0.0
        self.num_steps = 0
        self._times = times
        self._num_requests = 0
        self._context_tokens = 0

    def clock(self) -> float:
        return self.now_s

    def begin(self, num_requests: int, context_tokens: int) -> None:
        self._num_requests, self._context_tokens = num_requests, context_tokens

    def run(self, verified_tokens: int, draft_length: int) -> float:
        n, excess = self._num_requests, self._num_requests * (self._context_tokens - 256)
        seconds = 1e-3 * n * (1 + verified_tokens + draft_length)
        seconds += 1e-6 * excess * (1 + 0.5 * draft_length)
        self.num_steps += 1
        self.now_s += self._times * seconds
        return self._times * seconds


class FastNowAndThen(KnownEngine):
    """Every fourth step takes half as long."""

    def run(self, verified_tokens: int, draft_length: int) -> float:
        seconds = super().run(verified_tokens, draft_length)
        saved_s = 0.5 * seconds if self.num_steps % 4 == 0 else 0.0
        self.now_s -= saved_s
        return seconds - saved_s


class DisturbedEngine(KnownEngine):
    """Every seventh step takes 50 ms longer, because of other work on the machine."""

    def run(self, verified_tokens: int, draft_length: int) -> float:
        seconds = super().run(verified_tokens, draft_length)
        delay_s = 0.05 if self.num_steps % 7 == 0 else 0.0
        self.now_s += delay_s
        return seconds + delay_s
