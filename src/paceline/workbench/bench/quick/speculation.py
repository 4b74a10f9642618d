"""Measure what speculation gains: blocks with it and without it in turn, on the same prompts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.load.quick_requests import SessionSender
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.servers.governor.switch import GovernorSwitch
from paceline.foundation.workloads import RequestSpec
from paceline.workbench.bench.quick.gain_ratio import SpeculationGain, gain_of_pairs, unknown_gain

_WAVES = 2
"""Requests per slot in a block."""


async def measure_gain(
    switch: GovernorSwitch,
    sender: SessionSender,
    specs: Iterator[RequestSpec],
    concurrency: int,
    seconds: float,
    clock: Callable[[], float],
) -> SpeculationGain:
    """Rounds of four blocks, on off off on, for at most `seconds`, but one round at least.

    Raises SwitchUnavailable if the governor cannot be switched.
    """
    start_s = clock()
    pairs: list[tuple[float, float]] = []
    while True:
        round_start_s = clock()
        rates: dict[bool, list[float]] = {True: [], False: []}
        chosen = list(itertools.islice(specs, 2 * _WAVES * concurrency))
        halves = chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]
        for is_on, half in ((True, 0), (False, 0), (False, 1), (True, 1)):
            await (switch.turn_on() if is_on else switch.turn_off())
            rate = await _block(sender, halves[half], concurrency, clock)
            if rate is None:
                return unknown_gain("requests failed while speculation was measured")
            rates[is_on].append(rate)
        pairs += zip(rates[True], rates[False], strict=True)
        now_s = clock()
        if now_s + (now_s - round_start_s) > start_s + seconds:
            return gain_of_pairs(pairs, concurrency)


async def _block(
    sender: SessionSender,
    specs: Sequence[RequestSpec],
    concurrency: int,
    clock: Callable[[], float],
) -> float | None:
    """Output tokens/s of these requests; None if one failed."""
    records = await run_closed_loop(sender, iter(specs), concurrency, None, clock, _ignore)
    if not all(r.is_ok and r.output_tokens is not None for r in records):
        return None
    window_s = max(r.finished_s for r in records) - min(r.scheduled_s for r in records)
    return sum(r.output_tokens or 0 for r in records) / window_s


def _ignore(record: RequestRecord) -> None:
    """The blocks take seconds."""
