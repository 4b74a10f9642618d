"""The best static draft length, the noise of the controls, users within limits, and prices.

The best static length is one length for the whole benchmark, as an operator would set it. It is
chosen on other repeats than the one it is scored on: the best of several noisy lengths, scored on
the data that made it the best, is too good. With a single repeat there are no others, and
`BestStatic.is_cross_fitted` is False.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.interleaved.analysis import choose_on_others
from benchmarks.headline.arms import LAYOUT, PLAIN
from benchmarks.headline.cells import SATURATED, USERS, is_throughput
from benchmarks.headline.measured import TOKENS_PER_S, TPOT_P50, TTFT_P50, Figure, Floats, Measured
from paceline.workbench.cost.arithmetic import MeasuredRates, token_prices

_STATIC = re.compile(r"vllm(\+layout)?(\+ngram)?\+K=\d+")
CONTROLS = (PLAIN, LAYOUT)
"""Arms that may run twice in a campaign."""
USER_LEVELS = {f"chat-{users}": users for users in USERS}
MAX_TTFT_MS = 1000.0
MAX_TPOT_MS = 100.0
"""Of a user who reads along: an answer begins within a second and runs at ten tokens/s or more."""


@dataclass(frozen=True, slots=True)
class BestStatic:
    """The best single static draft length."""

    chosen: tuple[str, ...]
    """Arm by repeat."""
    is_cross_fitted: bool


def throughput_cells(measured: Measured) -> list[str]:
    """The measured cells whose rate of tokens is the server's own."""
    return [cell for cell in measured.cells if is_throughput(cell)]


def best_static(measured: Measured) -> BestStatic | None:
    """The arm with the highest output tokens/s over all throughput cells of the other repeats.

    Cells count alike (the mean of logarithms). None if no static length was measured.
    """
    arms, cells = [a for a in measured.arms if _STATIC.fullmatch(a)], throughput_cells(measured)
    if not arms or not cells:
        return None
    logs = [[np.log(measured.of(TOKENS_PER_S, arm, cell)) for cell in cells] for arm in arms]
    rates = np.exp(np.mean(logs, axis=1))[:, :, None]
    chosen = choose_on_others(rates)[:, 0]
    return BestStatic(tuple(arms[int(index)] for index in chosen), measured.num_repeats > 1)


def of_best_static(measured: Measured, best: BestStatic, figure: Figure, cell: str) -> Floats:
    """The figure of the arm that was chosen for each repeat, (num_repeats,)."""
    return np.array(
        [measured.of(figure, arm, cell)[repeat] for repeat, arm in enumerate(best.chosen)]
    )


def second_control(measured: Measured, first: str) -> str | None:
    """The arm that is equal to this one, such as `vllm#again`; None without one."""
    return next((arm for arm in measured.arms if arm.startswith(f"{first}#")), None)


def users(measured: Measured, arm: str) -> Floats:
    """The most concurrent requests of the measured levels within both limits, (num_repeats,).

    The limits hold in the median: `MAX_TTFT_MS` to the first token, `MAX_TPOT_MS` per further one.
    Levels above one that fails do not count. NaN where the lowest level fails.
    """
    found = np.full(measured.num_repeats, np.nan)
    levels = [(cell, number) for cell, number in USER_LEVELS.items() if cell in measured.cells]
    for repeat in range(measured.num_repeats):
        held = itertools.takewhile(
            lambda level, repeat=repeat: _is_within(measured, arm, level[0], repeat),  # type: ignore[misc]
            levels,
        )
        for _, number in held:
            found[repeat] = number
    return found


def _is_within(measured: Measured, arm: str, cell: str, repeat: int) -> bool:
    return bool(
        measured.of(TTFT_P50, arm, cell)[repeat] <= MAX_TTFT_MS
        and measured.of(TPOT_P50, arm, cell)[repeat] <= MAX_TPOT_MS
    )


def usd_per_million_tokens(measured: Measured, arm: str, usd_per_hour: float) -> Floats:
    """Price of 1M output tokens in the saturated cell, all of the machine's time used."""
    prices = [
        token_prices(
            MeasuredRates(
                output_tokens_per_s=one.output_tokens / one.seconds,
                total_tokens_per_s=(one.output_tokens + one.prompt_tokens) / one.seconds,
                requests_per_s=one.num_requests / one.seconds,
            ),
            usd_per_hour,
            utilization=1.0,
        ).usd_per_million_output_tokens
        for one in measured.counts[arm, SATURATED]
    ]
    return np.array(prices)


def acceptance(measured: Measured, arm: str, cells: Sequence[str]) -> Floats:
    """Accepted / drafted tokens over these cells, (num_repeats,); NaN where nothing was drafted."""
    found = []
    for repeat in range(measured.num_repeats):
        counts = [measured.counts[arm, cell][repeat] for cell in cells]
        drafted = sum(one.drafted_tokens for one in counts)
        found.append(
            sum(one.accepted_tokens for one in counts) / drafted if drafted else float("nan")
        )
    return np.array(found)
