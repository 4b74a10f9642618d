"""Sample /admin/governor at a fixed period during a run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from paceline.bench.results.speculation import governor_states

PERIOD_S = 0.25
_TIMEOUT = aiohttp.ClientTimeout(total=5)
_FIELDS = {
    "draft_length": "draft_length",
    "drafts": "num_drafts_total",
    "drafted_tokens": "drafted_tokens_total",
    "accepted_tokens": "accepted_tokens_total",
    "steps": "steps_total",
    "safe_plan_steps": "safe_plan_steps_total",
    "policy_errors": "policy_errors_total",
}


class GovernorWatch:
    """Samples of one run; none if the server has no governor (started without speculation)."""

    def __init__(self, admin_url: str) -> None:
        self._url = f"{admin_url}/admin/governor"
        self._times_s: list[float] = []
        self._states: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def running(self, session: aiohttp.ClientSession, zero_s: float) -> AsyncIterator[None]:
        """Sample while the block runs, including once at its beginning and once at its end."""
        await self._sample(session, zero_s)
        task = asyncio.create_task(self._repeat(session, zero_s))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._sample(session, zero_s)

    def render(self) -> dict[str, list[Any]]:
        """Columns with one entry per sample: `t_s` from the run's beginning, and the totals.

        Totals are relative to the first sample.
        """
        columns: dict[str, list[Any]] = {"t_s": [round(t, 3) for t in self._times_s]}
        for name, key in _FIELDS.items():
            values = [state.get(key, 0) for state in self._states]
            first = values[0] if key.endswith("_total") and values else 0
            columns[name] = [value - first for value in values]
        return columns

    async def _repeat(self, session: aiohttp.ClientSession, zero_s: float) -> None:
        for number in range(1, 1_000_000):
            await asyncio.sleep(max(zero_s + number * PERIOD_S - time.perf_counter(), 0.0))
            await self._sample(session, zero_s)

    async def _sample(self, session: aiohttp.ClientSession, zero_s: float) -> None:
        """Skip the sample if the page does not answer; the gap shows in the times."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
            async with session.get(self._url, timeout=_TIMEOUT) as response:
                document = await response.json(content_type=None)
            states = governor_states(document)
            if states:
                self._times_s.append(time.perf_counter() - zero_s)
                self._states.append(dict(states[0]))
