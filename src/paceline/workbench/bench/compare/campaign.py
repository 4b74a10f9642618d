"""Run rounds of blocks until the comparison is decided or its time is up.

The first round is a warm-up: it enters no figure, and its duration says how many rounds fit. Only
one block runs at a time, so one server is idle while the other is under load.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from paceline.workbench.bench.compare.contrasts import Arm, Block, Figure, Round, choose_order
from paceline.workbench.bench.compare.looks import LookSchedule
from paceline.workbench.bench.compare.verdict import Judgement, Verdict, judge

MAX_ROUNDS = 400
"""Bounds the report and the arithmetic; such a comparison has an interval of half the noise of 100
rounds."""


class BlockRunner(Protocol):
    """Applies the load of one block to one arm."""

    async def run(self, arm: Arm, round_index: int, position: int) -> Block:
        """Send the requests of the round to the arm and await all answers.

        The requests and their schedule depend on `round_index` only. Failed requests do not raise.
        """
        ...


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """The bounds of a comparison."""

    primary: Figure
    margin: float
    """Differences within it are reported as no difference."""
    total_error: float
    max_s: float
    seed: int


@dataclass(slots=True)
class Campaign:
    """What was measured; complete up to the last finished round, also after an interruption."""

    rounds: list[Round] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    """One for each look; the last one is the result."""
    num_planned_rounds: int | None = None
    """None before the end of the warm-up."""


async def run_campaign(
    settings: CampaignSettings,
    runner: BlockRunner,
    clock: Callable[[], float],
    campaign: Campaign,
    on_round: Callable[[Campaign], None] = lambda campaign: None,
) -> None:
    """Fill `campaign` with rounds and looks. Cancellation leaves it as after the last round."""
    coin = random.Random(settings.seed)
    start_s = clock()
    await _run_round(runner, coin, 0)
    round_s = clock() - start_s
    num_planned = int(min(MAX_ROUNDS, max(1, (settings.max_s - round_s) / max(round_s, 1e-9))))
    campaign.num_planned_rounds = num_planned
    schedule = LookSchedule(num_planned, settings.total_error)
    while True:
        campaign.rounds.append(await _run_round(runner, coin, len(campaign.rounds) + 1))
        num_rounds = len(campaign.rounds)
        elapsed_s = clock() - start_s
        mean_round_s = elapsed_s / (num_rounds + 1)
        is_last = num_rounds >= num_planned or elapsed_s + mean_round_s > settings.max_s
        error = schedule.error_of_look(num_rounds, is_last=is_last)
        if error is not None:
            judgement = judge(campaign.rounds, settings.primary, settings.margin, error)
            campaign.judgements.append(judgement)
        on_round(campaign)
        if is_last or (error is not None and _is_decided(campaign)):
            return


def judge_interrupted(settings: CampaignSettings, campaign: Campaign) -> None:
    """Add the last look of a comparison that was interrupted, unless its last round had one."""
    if campaign.judgements and campaign.judgements[-1].num_rounds == len(campaign.rounds):
        return
    schedule = LookSchedule(campaign.num_planned_rounds or 1, settings.total_error)
    error = schedule.error_of_look(len(campaign.rounds), is_last=True)
    assert error is not None
    campaign.judgements.append(judge(campaign.rounds, settings.primary, settings.margin, error))


async def _run_round(runner: BlockRunner, coin: random.Random, index: int) -> Round:
    blocks = [
        await runner.run(arm, index, position) for position, arm in enumerate(choose_order(coin))
    ]
    first, second, third, fourth = blocks
    return Round((first, second, third, fourth))


def _is_decided(campaign: Campaign) -> bool:
    return campaign.judgements[-1].verdict is not Verdict.UNDECIDED
