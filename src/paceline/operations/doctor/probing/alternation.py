"""Measure one setting of the governors against another, in alternating blocks of one load."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.workloads import RequestSpec
from paceline.operations.doctor.estimates.student import t_95
from paceline.operations.doctor.probing.load import ProbeLoad
from paceline.operations.doctor.readings.probe_result import MeasuredGain

Setter = Callable[[], Awaitable[None]]
_WAVES = 2
"""Requests per slot in a block."""


class NotMeasured(Exception):
    """The comparison could not be made. The message says why."""


async def compare_settings(
    load: ProbeLoad,
    set_one: Setter,
    set_other: Setter,
    concurrency: int,
    seconds: float,
    min_rounds: int = 2,
) -> MeasuredGain:
    """Tokens/s under the one over those under the other: rounds of one, other, other, one.

    Both halves of a round have their own prompts, the same for both settings. The first block under
    each setting is not counted: it warms up, and a policy learns. At least `min_rounds` are made.
    Raises NotMeasured if requests fail. The caller restores the setting.
    """
    start_s = time.perf_counter()
    for setter in (set_other, set_one):
        await setter()
        await _rate(load, _block(load, concurrency), concurrency)
    rates: dict[bool, list[float]] = {True: [], False: []}
    while True:
        round_start_s = time.perf_counter()
        halves = _block(load, concurrency), _block(load, concurrency)
        for is_one, half in ((True, 0), (False, 0), (False, 1), (True, 1)):
            await (set_one() if is_one else set_other())
            rates[is_one].append(await _rate(load, halves[half], concurrency))
        now_s = time.perf_counter()
        is_late = now_s + (now_s - round_start_s) > start_s + seconds
        if is_late and len(rates[True]) >= 2 * min_rounds:
            return summarize(rates[True], rates[False], concurrency)


def summarize(one: Sequence[float], other: Sequence[float], concurrency: int) -> MeasuredGain:
    """The geometric mean of the ratios, with Student's interval of their logarithms.

    `one` and `other` are tokens/s, two or more each; entry i of both is a pair.
    """
    logs = [math.log(first / second) for first, second in zip(one, other, strict=True)]
    mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    margin = t_95(len(logs) - 1) * error
    return MeasuredGain(
        value=math.exp(mean),
        low=math.exp(mean - margin),
        high=math.exp(mean + margin),
        num_pairs=len(logs),
        concurrency=concurrency,
        tokens_per_s=sum(one) / len(one),
    )


def _block(load: ProbeLoad, concurrency: int) -> list[RequestSpec]:
    return list(itertools.islice(load.specs, _WAVES * concurrency))


async def _rate(load: ProbeLoad, specs: Sequence[RequestSpec], concurrency: int) -> float:
    """Output tokens/s of these requests."""
    records = await run_closed_loop(
        load.sender, iter(specs), concurrency, None, time.perf_counter, load.count
    )
    failed = [record.error for record in records if not record.is_ok]
    if failed:
        raise NotMeasured(
            f"{len(failed)} of {len(records)} requests failed while the settings were compared: "
            f"{failed[0]}"
        )
    tokens = sum(record.output_tokens or 0 for record in records)
    if not tokens:
        raise NotMeasured("the answers had no tokens, or the server does not count them")
    elapsed_s = max(r.finished_s for r in records) - min(r.scheduled_s for r in records)
    return tokens / elapsed_s
