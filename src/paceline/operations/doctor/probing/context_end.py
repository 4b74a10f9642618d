"""Time steps with drafts and without on a vLLM server that always drafts.

vLLM drafts for a batch only while a draft of its longest request fits into the context (V1 model
runner, `_input_fits_in_drafter`). So one request whose prompt leaves room for less than a draft
keeps the whole batch without draft passes. What the next step then verifies is tested first:

- nothing, with Paceline's plugin. Then n - 1 requests with contexts like those of the load and one
  at the end of its context make steps without drafts (`_MixedBatches`).
- zeros instead of drafts, which the target does not accept. But the scheduler never fills a context
  beyond the last token: n requests with room for two tokens each get the second one in a step
  without draft tokens (`_LastSteps`). So it is with one request alone, whatever is verified.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from paceline.operations.doctor.estimates.drafting import Drafting, drafting_of
from paceline.operations.doctor.estimates.interval import Interval
from paceline.operations.doctor.estimates.undrafted import (
    HOW_FROM_END,
    HOW_FROM_MIXED_BATCHES,
    MIN_ROUNDS,
    StepRound,
    StepTimes,
    StepTotals,
    bounds_from_end,
    bounds_from_mixed_batches,
    infer_gain,
)
from paceline.operations.doctor.observing.server import ObservedServer
from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.load import ProbeLoad
from paceline.operations.doctor.probing.load_pieces import Load, load_of
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.probing.shared_steps import SharedSteps
from paceline.operations.doctor.probing.token_requests import TokenRequests
from paceline.operations.doctor.readings.observation import Reading
from paceline.operations.doctor.readings.probe_result import MeasuredGain
from paceline.operations.doctor.values import CannotJudge

MAX_CONTEXT_TOKENS = 8192
"""A longer context takes too long to fill. Chosen empirically."""
_ROUNDS_PER_PIECE = 3
"""Rounds of steps between two pieces of the load."""
_MIN_DRAFT_LENGTH = 4
"""Shorter drafts leave no room for the test whether they are skipped."""


async def infer_gain_of_drafts(
    session: aiohttp.ClientSession,
    server: ObservedServer,
    load: ProbeLoad,
    settings: ProbeSettings,
    readings: Sequence[Reading],
) -> MeasuredGain:
    """The gain of drafts at the highest load of the probe; `readings` were made during the load.

    Takes `settings.seconds`. Raises NotMeasured with the reason.
    """
    name, drafting = _drafting(readings)
    max_tokens = settings.max_tokens
    length = len(drafting.reached)
    if not drafting.has_one_length:
        raise NotMeasured(
            f"the server drafts several lengths, {drafting.draft_length:.1f} tokens on average"
        )
    if length < _MIN_DRAFT_LENGTH:
        raise NotMeasured(
            f"drafts of {length} tokens are too short to test whether vLLM "
            f"skips them at the end of the context; {_MIN_DRAFT_LENGTH} are needed"
        )
    requests = TokenRequests(session, settings, load)
    context = await requests.read_context_tokens()
    if context > MAX_CONTEXT_TOKENS:
        raise NotMeasured(
            "a vLLM server cannot draft less while it runs, except at the end of its context, and "
            f"one of {context} tokens is too long to fill (at most {MAX_CONTEXT_TOKENS}): restart "
            "it without speculative_config and compare (paceline bench compare), or run it under "
            "Paceline"
        )
    await requests.read_prompts()
    rounds = SharedSteps(requests, server, name, settings.concurrency)
    prompts = _Prompts.of(context, length, requests.mean_prompt_tokens, max_tokens)
    verifies_zeros = await rounds.verifies_zeros(prompts.end, length - 1, drafting.reached[0])
    source: _Source
    if verifies_zeros or settings.concurrency == 1:
        source = _LastSteps(rounds, prompts)
    else:
        source = _MixedBatches(rounds, prompts, length)
    measured = await _measure(
        source, load_of(load, settings, readings, name), time.monotonic() + settings.seconds
    )
    margin = drafting.accepted_error
    tokens_per_step = Interval(
        1 + max(0.0, drafting.accepted_per_draft - margin), 1 + drafting.accepted_per_draft + margin
    )
    return infer_gain(measured, tokens_per_step, settings.concurrency, source.how)


@dataclass(frozen=True, slots=True)
class _Prompts:
    """Lengths of prompts, in tokens."""

    usual: int
    """Of the workload."""
    short: int
    """As long as the context in the middle of an answer."""
    end: int
    """With room for all but one token of a draft."""
    last: int
    """With room for two tokens."""
    max_tokens: int
    """Of an answer."""

    @staticmethod
    def of(context: int, draft_length: int, usual: int, max_tokens: int) -> _Prompts:
        """Of a model with this context. Raises NotMeasured if it is too short."""
        short, end = usual + max_tokens // 2, context - draft_length + 1
        if end < 2 * short:
            raise NotMeasured(f"the context of {context} tokens is too short for the comparison")
        return _Prompts(usual, short, end, context - 2, max_tokens)


class _Source(Protocol):
    """Where steps without drafts come from."""

    how: str
    """For the diagnosis: which steps were timed."""

    async def warm_up(self) -> None:
        """Let the prefix cache hold the prompts."""
        ...

    async def round(self) -> StepTimes | None:
        """One round; None if its requests did not share their steps, or others did."""
        ...


class _MixedBatches:
    """Requests with contexts like those of the load, beside some at the end of theirs."""

    how = HOW_FROM_MIXED_BATCHES

    def __init__(self, rounds: SharedSteps, prompts: _Prompts, draft_length: int) -> None:
        self._rounds, self._prompts = rounds, prompts
        self._num_few, self._num_many = draft_length // 2 - 1, draft_length - 2

    async def warm_up(self) -> None:
        """See `_Source`."""
        for num_at_end in (0, self._rounds.num_requests):
            await self._rounds.steps_s(self._contexts(num_at_end), 1)

    async def round(self) -> StepTimes | None:
        """See `_Source`."""
        num = self._rounds.num_requests
        steady_s = await self._rounds.steady_step_s(self._prompts.usual, self._prompts.max_tokens)
        one, all_of_them = await self._totals(1), await self._totals(num)
        if steady_s is None or one is None or all_of_them is None:
            return None
        return StepTimes(steady_s, *bounds_from_mixed_batches(one, all_of_them, num))

    async def _totals(self, num_at_end: int) -> StepTotals | None:
        contexts = self._contexts(num_at_end)
        few_s = await self._rounds.steps_s(contexts, self._num_few)
        many_s = await self._rounds.steps_s(contexts, self._num_many)
        if few_s is None or many_s is None:
            return None
        return StepTotals(few_s, self._num_few, many_s, self._num_many)

    def _contexts(self, num_at_end: int) -> list[int]:
        num_others = self._rounds.num_requests - num_at_end
        return [self._prompts.end] * num_at_end + [self._prompts.short] * num_others


class _LastSteps:
    """Requests that all have room for two tokens."""

    how = HOW_FROM_END

    def __init__(self, rounds: SharedSteps, prompts: _Prompts) -> None:
        self._rounds, self._prompts = rounds, prompts

    async def warm_up(self) -> None:
        """See `_Source`."""
        for prompt in (self._prompts.short, self._prompts.last):
            await self._rounds.steps_s([prompt] * self._rounds.num_requests, 1)

    async def round(self) -> StepTimes | None:
        """See `_Source`."""
        num, prompts = self._rounds.num_requests, self._prompts
        steady_s = await self._rounds.steady_step_s(prompts.usual, prompts.max_tokens)
        short_s = await self._rounds.steps_s([prompts.short] * num, 1, drafts=True)
        last_s = await self._rounds.steps_s([prompts.last] * num, 1)
        if steady_s is None or short_s is None or last_s is None:
            return None
        fraction = prompts.short / prompts.last
        return StepTimes(steady_s, *bounds_from_end(last_s, short_s - steady_s, fraction))


async def _measure(source: _Source, load: Load, until_s: float) -> list[StepRound]:
    num_dropped = 0
    measured = []
    await source.warm_up()
    while time.monotonic() < until_s:
        answer = await load.measure()
        for _ in range(_ROUNDS_PER_PIECE):
            times = await source.round()
            if times is None:
                num_dropped += 1
            else:
                measured.append(StepRound(times, answer))
    if len(measured) < MIN_ROUNDS:
        raise NotMeasured(
            f"in {len(measured)} rounds all requests shared their steps, in {num_dropped} they did "
            f"not; {MIN_ROUNDS} are needed: give --seconds more or --concurrency less, and wait "
            "until the server has no other requests; it needs its prefix cache"
        )
    return measured


def _drafting(readings: Sequence[Reading]) -> tuple[str, Drafting]:
    """The one engine of the server, and what its drafts did under the load."""
    engines = readings[-1].engines
    if len(engines) != 1:
        raise NotMeasured(
            f"the server has {len(engines)} engines; steps are compared on one engine only"
        )
    (name,) = engines
    try:
        return name, drafting_of([reading.engines[name] for reading in readings])
    except (CannotJudge, KeyError) as reason:
        raise NotMeasured(str(reason)) from reason
