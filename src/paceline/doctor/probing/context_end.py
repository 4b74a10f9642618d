"""Time steps with drafts and without on a vLLM server that always drafts.

vLLM drafts for a batch only while a draft of its longest request fits into the context (V1 model
runner, `_input_fits_in_drafter`), and its scheduler never fills a context beyond the last token. So
a request whose prompt leaves room for two tokens gets its second one in a step without a draft pass
and without draft tokens. With a prompt that is shorter by two drafts, the same step drafts.

n such requests are sent at once, and vLLM's counters read before and after. Another request goes
ahead and keeps the engine busy until all n have arrived, so that all their prompts are in one step
and all their second tokens in the next. If the counters show anything else, the round is dropped.

Whether this vLLM skips the drafts is tested first, with room for several tokens: it then verifies
zeros instead of drafts, which the target does not accept, or nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from paceline.doctor.estimates.drafting import Drafting, drafting_of
from paceline.doctor.estimates.interval import Interval
from paceline.doctor.estimates.undrafted import MIN_ROUNDS, StepRound, infer_gain
from paceline.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.doctor.probing.alternation import NotMeasured
from paceline.doctor.probing.load import ProbeLoad
from paceline.doctor.probing.settings import ProbeSettings
from paceline.doctor.probing.token_requests import TokenRequests
from paceline.doctor.readings.engines import EngineReading
from paceline.doctor.readings.observation import Reading, growth
from paceline.doctor.readings.probe_result import MeasuredGain
from paceline.doctor.values import CannotJudge

MAX_CONTEXT_TOKENS = 8192
"""A longer context takes too long to fill. Chosen empirically."""
_MIN_DRAFT_LENGTH = 4
"""Shorter drafts leave no room for the test whether they are skipped."""
_ITERATIONS = "vllm:iteration_tokens_total_count"
_STEPS_OF_ROUND = 3
"""Of the request that goes ahead, of the prompts, and of the second tokens."""
_LEAD_S = 0.02
_FIRST_AHEAD_TOKENS = 256
_MAX_AHEAD_TOKENS = 1536
"""Within a step of vLLM's API server, which computes 2,048 tokens on CPUs and more on GPUs."""
_CERTAINTY = 0.01
"""Chance that drafts which are not skipped pass the test."""
_MAX_TESTS = 12


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
    if not drafting.has_one_length or length < _MIN_DRAFT_LENGTH:
        raise NotMeasured(
            f"drafts of {drafting.draft_length:.1f} tokens are too short to test whether vLLM "
            f"skips them at the end of the context; {_MIN_DRAFT_LENGTH} are needed"
        )
    rate = _rate_at_full_load(readings, name, load)
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
    rounds = _Rounds(requests, server, name, settings.concurrency)
    prompts = _Prompts.of(context, length, requests.mean_prompt_tokens, max_tokens)
    await rounds.test_skipping(prompts.test, length - 1, drafting.reached[0])
    measured = await _measure(rounds, prompts, max_tokens, time.monotonic() + settings.seconds)
    margin = drafting.accepted_error
    tokens_per_step = Interval(
        1 + max(0.0, drafting.accepted_per_draft - margin), 1 + drafting.accepted_per_draft + margin
    )
    return infer_gain(measured, tokens_per_step, settings.concurrency, rate)


@dataclass(frozen=True, slots=True)
class _Prompts:
    """Lengths of prompts, in tokens."""

    usual: int
    """Of the workload."""
    short: int
    """As long as the context in the middle of an answer."""
    full: int
    """With room for two drafts and two tokens."""
    end: int
    """With room for two tokens."""
    test: int
    """With room for all but one token of a draft."""

    @staticmethod
    def of(context: int, draft_length: int, usual: int, max_tokens: int) -> _Prompts:
        """Of a model with this context. Raises NotMeasured if it is too short."""
        short, full = usual + max_tokens // 2, context - 2 * draft_length - 2
        if full < 2 * short:
            raise NotMeasured(f"the context of {context} tokens is too short for the comparison")
        return _Prompts(usual, short, full, context - 2, context - draft_length + 1)


async def _measure(
    rounds: _Rounds, prompts: _Prompts, max_tokens: int, until_s: float
) -> list[StepRound]:
    num_dropped = 0
    measured = []
    for prompt in (prompts.short, prompts.full, prompts.end):  # the prefix cache holds them then
        await rounds.first_step_s(prompt, drafts=prompt != prompts.end)
    while time.monotonic() < until_s:
        steady_s = await rounds.steady_step_s(prompts.usual, max_tokens)
        short_s = await rounds.first_step_s(prompts.short, drafts=True)
        full_s = await rounds.first_step_s(prompts.full, drafts=True)
        end_s = await rounds.first_step_s(prompts.end, drafts=False)
        if steady_s and short_s and full_s and end_s:
            measured.append(StepRound(steady_s, short_s, full_s, end_s))
        else:
            num_dropped += 1
    if len(measured) < MIN_ROUNDS:
        raise NotMeasured(
            f"in {len(measured)} rounds all requests shared their steps, in {num_dropped} they did "
            f"not; {MIN_ROUNDS} are needed: give --seconds more or --concurrency less, and wait "
            "until the server has no other requests; it needs its prefix cache"
        )
    return measured


@dataclass(frozen=True, slots=True)
class _Growth:
    """By how much the counters of the engine grew."""

    decode_s: float
    decode_steps: float
    drafts: float
    accepted: float
    engine_steps: float

    @staticmethod
    def of(before: EngineReading, after: EngineReading, engine_steps: float = 0.0) -> _Growth:
        """Raises NotMeasured if a counter is not shown, or fell."""
        pair = (before, after)
        grown = (
            growth(pair, lambda one: one.decode_s_total),
            growth(pair, lambda one: one.decode_steps_total),
            growth(pair, lambda one: one.drafts_total),
            growth(pair, lambda one: one.accepted_tokens_total),
        )
        known = [one for one in grown if one is not None]
        if len(known) < len(grown):
            raise NotMeasured("the server does not show the times of its steps, or restarted")
        decode_s, steps, drafts, accepted = known
        return _Growth(decode_s, steps, drafts, accepted, engine_steps)


class _Rounds:
    """Requests that share their steps, with what the server counted meanwhile."""

    def __init__(
        self, requests: TokenRequests, server: ObservedServer, engine: str, num_requests: int
    ) -> None:
        self._requests, self._server = requests, server
        self._engine, self._num_requests = engine, num_requests
        self._ahead_tokens = _FIRST_AHEAD_TOKENS

    async def steady_step_s(self, prompt_tokens: int, max_tokens: int) -> float | None:
        """The mean time of a step with drafts over the answers; None if there was none."""
        grown = await self._send_together(prompt_tokens, max_tokens)
        return grown.decode_s / grown.decode_steps if grown.decode_steps else None

    async def first_step_s(self, prompt_tokens: int, *, drafts: bool) -> float | None:
        """The time of the first step of all requests after their prompts.

        None if they did not share it, or other requests did.
        """
        grown = await self._send_together(prompt_tokens, 2)
        if grown.decode_steps == self._num_requests and grown.engine_steps > _STEPS_OF_ROUND:
            self._ahead_tokens = min(2 * self._ahead_tokens, _MAX_AHEAD_TOKENS)
        is_shared = (
            grown.engine_steps == _STEPS_OF_ROUND
            and grown.decode_steps == self._num_requests
            and grown.drafts == (self._num_requests if drafts else 0)
        )
        return grown.decode_s / grown.decode_steps if is_shared else None

    async def test_skipping(self, prompt_tokens: int, room: int, accepted_first: float) -> None:
        """Raise NotMeasured unless vLLM skips drafts after this prompt.

        `accepted_first`: the fraction of drafts whose first token is accepted elsewhere.
        """
        before, _ = await self._read()
        for _ in range(_MAX_TESTS):
            await self._requests.send(prompt_tokens, room, self._num_requests)
            after, _ = await self._read()
            grown = _Growth.of(before, after)
            if grown.accepted:
                raise NotMeasured("this vLLM drafts to the end of its context")
            has_none = grown.decode_steps and not grown.drafts
            if has_none or (1 - accepted_first) ** grown.drafts < _CERTAINTY:
                return
        raise NotMeasured(
            "drafts are accepted too rarely to test whether vLLM skips them at the end of its "
            "context"
        )

    async def _send_together(self, prompt_tokens: int, max_tokens: int) -> _Growth:
        """Send all requests while another one keeps the engine busy; wait for the answers."""
        before, steps_before = await self._read()
        ahead = asyncio.create_task(self._requests.send_ahead(self._ahead_tokens))
        try:
            await asyncio.sleep(_LEAD_S)
            await self._requests.send(prompt_tokens, max_tokens, self._num_requests)
            await ahead
        finally:
            ahead.cancel()
            with contextlib.suppress(asyncio.CancelledError, NotMeasured):
                await ahead
        after, steps_after = await self._read()
        return _Growth.of(before, after, steps_after - steps_before)

    async def _read(self) -> tuple[EngineReading, float]:
        try:
            reading = await self._server.read()
        except ReadingFailed as failure:
            raise NotMeasured(str(failure)) from failure
        steps = reading.page.total(_ITERATIONS)
        if self._engine not in reading.engines or steps is None:
            raise NotMeasured(f"the server does not show {_ITERATIONS}")
        return reading.engines[self._engine], steps


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


def _rate_at_full_load(readings: Sequence[Reading], name: str, load: ProbeLoad) -> float:
    """Output tokens/s while all slots were filled."""
    begin_s, end_s = load.full_load_s
    within = [one.engines[name] for one in readings if begin_s <= one.at_s <= end_s]
    tokens = growth(within, lambda one: one.generation_tokens_total) if len(within) > 1 else None
    if not tokens:
        raise NotMeasured("the load was too short to show its tokens/s; give --seconds more")
    return tokens / (within[-1].at_s - within[0].at_s)
