"""How fast: time per output token, time to first token and throughput over batch sizes.

A replica that always has n requests spends, for each request, the time P of its prompt and its
share of the decode steps, (output tokens / tokens per step) * step(n) / n. So it completes

    r = 1 / (P + output * step(n) / (n * tokens per step))

requests per second. By Little's law each stays n / r seconds, of which P are its own prompt. The
rest divided by the output tokens is the time per output token; it contains the prompts of other
requests that interrupt the answer. The time to first token is P and the wait for the other prompts
and for the decode steps beside them (`waits`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.foundation.capacity.speculation import (
    NO_ACCEPTANCE,
    Acceptance,
    DraftLengthGain,
    best_length,
    gains,
)
from paceline.foundation.capacity.step_time import StepTime, model_time
from paceline.foundation.planning.decisions.memory import MemoryPlan
from paceline.foundation.planning.decisions.waits import SlotUse
from paceline.foundation.planning.values import (
    Drafter,
    EngineLimits,
    Load,
    Placement,
    PlanError,
    PlannedModel,
    Slo,
)


@dataclass(frozen=True, slots=True)
class BatchPerformance:
    """One replica at a steady number of requests."""

    slots: SlotUse
    """All of them in use."""
    draft_length: int
    """The one with the highest rate here; 0 is no speculation."""
    speculation_gain: float
    """Output tokens per second over those of an engine without a drafter, minus 1."""
    tokens_per_step: float
    prompt_wait_s: float
    """For the prompts of others, at the quantile asked for; infinite where a step leaves too few
    tokens for the prompts of this many requests."""
    tpot_s: float
    output_tokens_per_s: float
    """Of all requests together."""

    @property
    def num_requests(self) -> int:
        """At all times."""
        return self.slots.num_requests

    @property
    def step_s(self) -> float:
        """To decode one step."""
        return self.slots.step_s

    @property
    def requests_per_s(self) -> float:
        """Of all requests together."""
        return self.slots.requests_per_s

    @property
    def prefill_s(self) -> float:
        """To compute one prompt."""
        return self.slots.prefill_s

    @property
    def residence_s(self) -> float:
        """From the first step of a request to its last."""
        return self.slots.residence_s

    @property
    def ttft_s(self) -> float:
        """At the quantile asked for, with a slot free at once."""
        return self.prefill_s + self.prompt_wait_s

    @property
    def prefill_fraction(self) -> float:
        """Share of the time that computes prompts."""
        return self.requests_per_s * self.prefill_s

    def meets(self, slo: Slo) -> bool:
        """Whether prompts keep pace with answers, and both latencies are within the SLO."""
        return (
            math.isfinite(self.prompt_wait_s)
            and (slo.ttft_ms is None or self.ttft_s * 1e3 <= slo.ttft_ms)
            and (slo.tpot_ms is None or self.tpot_s * 1e3 <= slo.tpot_ms)
        )


def step_time(
    model: PlannedModel, drafter: Drafter, placement: Placement, memory: MemoryPlan
) -> StepTime:
    """Return the step times of a placement. Raises `PlanError` for a format it cannot compute."""
    hardware, size = placement.hardware, placement.tensor_parallel
    try:
        target = model_time(model.shape, model.weight_format, memory.target_layers, hardware, size)
        draft = None
        if drafter.model is not None:
            draft = model_time(
                drafter.model.shape,
                drafter.model.weight_format,
                memory.draft_layers,
                hardware,
                size,
            )
    except ValueError as error:
        raise PlanError(str(error)) from None
    return StepTime(target, draft)


def speculation_rows(
    times: StepTime,
    drafter: Drafter,
    load: Load,
    limits: EngineLimits,
    num_requests: float,
    acceptance: Acceptance | None = None,
) -> list[DraftLengthGain]:
    """Return every draft length at a batch size, 0 first; at the expected acceptance by default.

    Without an acceptance, given or known, it is length 0 alone.
    """
    if acceptance is None and drafter.acceptance is not None:
        acceptance = drafter.acceptance.expected
    return gains(
        times,
        NO_ACCEPTANCE if acceptance is None else acceptance,
        requests=num_requests,
        context_tokens=load.mean_context_tokens,
        draft_lengths=(0,) if acceptance is None else limits.draft_lengths,
    )


def batch_performance(
    times: StepTime,
    drafter: Drafter,
    load: Load,
    limits: EngineLimits,
    num_requests: int,
    quantile: float = 0.95,
) -> BatchPerformance:
    """Return one batch size, at its best draft length; the wait for prompts is at `quantile`."""
    best = best_length(speculation_rows(times, drafter, load, limits, num_requests))
    prompt_s = times.prefill_s(load.prompt_tokens)
    share_s = load.output_tokens / best.tokens_per_step * best.step_s / num_requests
    rate = 1.0 / (prompt_s + share_s)
    plain_step_s = times.decode_s(num_requests, load.mean_context_tokens)
    plain_prompt_s = replace(times, draft=None).prefill_s(load.prompt_tokens)
    plain_rate = 1.0 / (plain_prompt_s + load.output_tokens * plain_step_s / num_requests)
    # vLLM gives every running request its token and its drafts first.
    left = max(1, limits.max_batched_tokens - num_requests * (1 + best.draft_length))
    slots = SlotUse(num_requests, rate, prompt_s, best.step_s, load.prompt_tokens / left)
    return BatchPerformance(
        slots=slots,
        draft_length=best.draft_length,
        speculation_gain=rate / plain_rate - 1.0,
        tokens_per_step=best.tokens_per_step,
        prompt_wait_s=slots.wait_s(quantile),
        tpot_s=(slots.residence_s - prompt_s) / load.output_tokens,
        output_tokens_per_s=rate * load.output_tokens,
    )


def batch_sizes(largest: int) -> list[int]:
    """Return 1, 2, 4, … and the largest itself.

    >>> batch_sizes(6)
    [1, 2, 4, 6]
    """
    sizes = [1]
    while sizes[-1] * 2 < largest:
        sizes.append(sizes[-1] * 2)
    return sizes if largest <= 1 else [*sizes, largest]


def operating_point(
    times: StepTime,
    drafter: Drafter,
    load: Load,
    limits: EngineLimits,
    slo: Slo,
    largest: int,
) -> BatchPerformance | None:
    """Return the fastest batch that meets the SLO; None where one request alone misses it.

    Latency grows with the batch, so the search for the largest halves the range. By measured steps,
    a smaller one can give more tokens per second. The load's own concurrency, where it is given,
    bounds the batch.
    """
    if load.concurrency is not None:
        largest = min(largest, load.concurrency)

    def at(size: int) -> BatchPerformance:
        return batch_performance(times, drafter, load, limits, size, slo.quantile)

    if largest < 1 or not at(1).meets(slo):
        return None
    low, high = 1, largest
    while low < high:
        middle = (low + high + 1) // 2
        if at(middle).meets(slo):
            low = middle
        else:
            high = middle - 1
    sizes = [low] if load.concurrency is not None else batch_sizes(low)
    return max(
        (at(size) for size in sizes), key=lambda row: (row.output_tokens_per_s, row.num_requests)
    )


def performance_table(
    times: StepTime,
    drafter: Drafter,
    load: Load,
    limits: EngineLimits,
    sizes: Sequence[int],
    quantile: float = 0.95,
) -> list[BatchPerformance]:
    """Return the performance of each batch size."""
    return [batch_performance(times, drafter, load, limits, size, quantile) for size in sizes]
