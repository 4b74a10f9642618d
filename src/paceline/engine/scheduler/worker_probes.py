"""What can vLLM's workers tell about the drafter beyond the drafts that they make?

Two things, each only where the engine can: how a resting draft model would have fared
(`hindsight`), and at length 0 whether the first token of a drafter that keeps up came
(`first_token`). The orders leave with the step's output, the reports come with the drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paceline.engine.fixes.sampler_check import Executor
from paceline.engine.scheduler import first_token_schedule
from paceline.engine.scheduler.first_token_schedule import FirstTokenOrders
from paceline.engine.scheduler.observer import StepObserver
from paceline.engine.worker import replay_scoring
from paceline.engine.worker.first_token_probe import head_fraction_of_workers
from paceline.engine.worker.replay_scoring_pass import workers_have_replay_scoring
from paceline.governor.values import DraftPlan, EngineLoad


@dataclass(frozen=True, slots=True)
class WorkerProbes:
    """What this engine's workers can tell, and when they are asked."""

    has_replay_scoring: bool
    first_tokens: FirstTokenOrders | None

    def order(self, output: Any, plan: DraftPlan, load: EngineLoad) -> bool:
        """Put the plan's orders on the step's output; True when there are any, for they take time.

        Call it once a step. The attributes are none of vLLM's; pickling carries them all the same.
        """
        has_orders = False
        if plan.replay_scoring_tokens > 0 and load.has_replay_scoring:
            setattr(output, replay_scoring.ORDER, plan.replay_scoring_tokens)
            has_orders = True
        if (
            self.first_tokens is not None
            and load.has_first_token_verdicts
            and self.first_tokens.is_due(plan)
        ):
            setattr(output, first_token_schedule.ORDER, True)
            has_orders = True
        return has_orders


def ask_workers(executor: Executor | None) -> WorkerProbes:
    """What the workers of this executor can tell; nothing without one. Never raises."""
    fraction = head_fraction_of_workers(executor)
    return WorkerProbes(
        has_replay_scoring=workers_have_replay_scoring(executor),
        first_tokens=None if fraction is None else FirstTokenOrders(fraction),
    )


def take_reports(observer: StepObserver, draft_token_ids: Any) -> Iterator[Exception]:
    """Hand the reports that came with the drafts to the observer; yields what was wrong."""
    for name, take in (
        (replay_scoring.REPORT, observer.replay_scoring_came),
        (first_token_schedule.REPORT, observer.first_tokens_came),
    ):
        report = getattr(draft_token_ids, name, None)
        if report is not None:
            try:
                take(report)
            except Exception as error:  # noqa: BLE001 - one report less; serving goes on
                yield error
