"""`SharedSteps`: the times of steps that n requests share, from vLLM's counters.

All n requests are sent at once, and vLLM's counters read before and after. Another request goes
ahead and keeps the engine busy until all n have arrived, so that all their prompts are in one step
and all their second tokens in the next. If the counters show anything else, the time is not given.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.operations.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.token_requests import TokenRequests
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import growth

_ITERATIONS = "vllm:iteration_tokens_total_count"
_STEPS_BEFORE = 2
"""Of the request that goes ahead, and of the prompts."""
_LEAD_S = 0.02
_FIRST_AHEAD_TOKENS = 256
_MAX_AHEAD_TOKENS = 1536
"""Within a step of vLLM's API server, which computes 2,048 tokens on CPUs and more on GPUs."""
_CERTAINTY = 0.01
"""Chance that drafts which are not skipped pass the test."""
_MAX_TESTS = 12


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


class SharedSteps:
    """Requests that share their steps, with what the server counted meanwhile."""

    def __init__(
        self, requests: TokenRequests, server: ObservedServer, engine: str, num_requests: int
    ) -> None:
        self._requests, self._server = requests, server
        self._engine, self.num_requests = engine, num_requests
        self._ahead_tokens = _FIRST_AHEAD_TOKENS

    async def steady_step_s(self, prompt_tokens: int, max_tokens: int) -> float | None:
        """The mean time of a step with drafts over the answers; None if there was none."""
        grown = await self._send_together([prompt_tokens] * self.num_requests, max_tokens)
        return grown.decode_s / grown.decode_steps if grown.decode_steps else None

    async def steps_s(
        self, prompts_tokens: Sequence[int], num_steps: int, *, drafts: bool = False
    ) -> float | None:
        """The time of the first `num_steps` steps of all requests after their prompts.

        `drafts`: whether each of them verifies drafts. None if the requests did not share their
        steps, or others did, or the engine drafted otherwise.
        """
        grown = await self._send_together(prompts_tokens, 1 + num_steps)
        expected = self.num_requests * num_steps
        if grown.decode_steps == expected and grown.engine_steps > _STEPS_BEFORE + num_steps:
            self._ahead_tokens = min(2 * self._ahead_tokens, _MAX_AHEAD_TOKENS)
        is_shared = (
            grown.engine_steps == _STEPS_BEFORE + num_steps
            and grown.decode_steps == expected
            and grown.drafts == (expected if drafts else 0)
        )
        return grown.decode_s / self.num_requests if is_shared else None

    async def verifies_zeros(self, prompt_tokens: int, room: int, accepted_first: float) -> bool:
        """Whether vLLM verifies zeros where it skips drafts. Raises NotMeasured if it
        skips none there, or computes other requests.

        `accepted_first`: the fraction of drafts whose first token is accepted elsewhere.
        """
        before, _ = await self._read()
        for num_sent in range(1, _MAX_TESTS + 1):
            await self._requests.send([prompt_tokens] * self.num_requests, room)
            after, _ = await self._read()
            grown = _Growth.of(before, after)
            if grown.decode_steps > num_sent * self.num_requests * (room - 1):
                raise NotMeasured("the server computes other requests: wait until it has none")
            if grown.accepted:
                raise NotMeasured("this vLLM drafts to the end of its context")
            if grown.decode_steps and not grown.drafts:
                return False
            if (1 - accepted_first) ** grown.drafts < _CERTAINTY:
                return True
        raise NotMeasured(
            "drafts are accepted too rarely to test whether vLLM skips them at the end of its "
            "context"
        )

    async def _send_together(self, prompts_tokens: Sequence[int], max_tokens: int) -> _Growth:
        """Send all requests while another one keeps the engine busy; wait for the answers."""
        before, steps_before = await self._read()
        ahead = asyncio.create_task(self._requests.send_ahead(self._ahead_tokens))
        try:
            await asyncio.sleep(_LEAD_S)
            await self._requests.send(prompts_tokens, max_tokens)
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
