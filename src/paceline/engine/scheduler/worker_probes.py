"""Order worker probes with a step's output, and pass their reports to the observer.

There are two probes, each available only in some engines: replay scoring, which estimates the
acceptance of a resting draft model, and the first-token probe, which measures at length 0 whether
the first token of a drafter that keeps running would have been accepted. Orders leave with the
scheduler output; reports return with the draft tokens.

A first-token probe lengthens the step that carries the order. Replay scoring may lengthen every
step until its report returns, because the workers first record target probabilities of sampled
requests (`worker.replay_requests`). The durations of these steps must not be taken for the cost of
a draft length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paceline.engine.compat.executor import Executor
from paceline.engine.scheduler.first_token_schedule import FirstTokenSchedule
from paceline.engine.scheduler.observer import StepObserver
from paceline.engine.worker.first_token_probe import head_fraction_of_workers
from paceline.engine.worker.probe_reports import (
    FIRST_TOKEN_ORDER,
    FIRST_TOKEN_REPORT,
    REPLAY_ORDER,
    REPLAY_REPORT,
)
from paceline.engine.worker.replay_scoring import RECORDED_STEPS
from paceline.engine.worker.replay_scoring_pass import workers_have_replay_scoring
from paceline.governor.values import DraftPlan, EngineLoad

_MAX_REPLAY_STEPS = RECORDED_STEPS + 2
"""Steps for which a report is awaited: the order's own, the recorded ones, one to spare."""


class WorkerProbes:
    """The probes that this engine's workers support, and the order whose report is awaited."""

    def __init__(
        self, *, has_replay_scoring: bool, first_tokens: FirstTokenSchedule | None
    ) -> None:
        """`first_tokens` is None where the workers do not support the first-token probe."""
        self.has_replay_scoring = has_replay_scoring
        self.first_tokens = first_tokens
        self._replay_steps_left = 0

    def order(self, output: Any, plan: DraftPlan, load: EngineLoad) -> bool:
        """Attach the plan's orders to the step's output; return whether probes lengthen the step.

        Call it once per step; it counts the steps since an order.
        """
        if plan.replay_scoring_tokens > 0 and load.has_replay_scoring:
            setattr(output, REPLAY_ORDER, plan.replay_scoring_tokens)
            self._replay_steps_left = _MAX_REPLAY_STEPS
        is_lengthened = self._replay_steps_left > 0
        self._replay_steps_left = max(self._replay_steps_left - 1, 0)
        if (
            self.first_tokens is not None
            and load.has_first_token_verdicts
            and self.first_tokens.is_due(plan)
        ):
            setattr(output, FIRST_TOKEN_ORDER, True)
            is_lengthened = True
        return is_lengthened

    def pass_reports(self, observer: StepObserver, draft_token_ids: Any) -> Iterator[Exception]:
        """Pass the reports that came with the drafts to the observer; yield each error."""
        for name, add in (
            (REPLAY_REPORT, observer.add_replay_scores),
            (FIRST_TOKEN_REPORT, observer.add_first_token_verdicts),
        ):
            report = getattr(draft_token_ids, name, None)
            if report is None:
                continue
            if name == REPLAY_REPORT:
                self._replay_steps_left = 0
            try:
                add(report)
            except Exception as error:  # noqa: BLE001 - one report is lost; serving continues
                yield error


def find_probes(executor: Executor | None) -> WorkerProbes:
    """Return the probes that all workers support; none without an executor. Never raises."""
    fraction = head_fraction_of_workers(executor)
    return WorkerProbes(
        has_replay_scoring=workers_have_replay_scoring(executor),
        first_tokens=None if fraction is None else FirstTokenSchedule(fraction),
    )
