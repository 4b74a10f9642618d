"""Controllers, policies and samples for tests of the draft length controller."""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

LOAD = EngineLoad(
    num_requests=2, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
)


def make_sample(
    drafted: tuple[int, ...] = (3, 3), accepted: tuple[int, ...] = (2, 1)
) -> StepSample:
    """A step of two requests with these drafts, of 50 ms."""
    return StepSample(
        num_requests=2,
        requested_draft_length=3,
        drafted=drafted,
        accepted=accepted,
        verified_draft_tokens=sum(drafted),
        draft_length=3,
        prefill_tokens=0,
        context_tokens=100,
        duration_s=0.05,
        is_clean=True,
    )


def make_controller(**settings: Any) -> DraftLengthController:
    """A controller of the policy `fixed`, unless `settings` say otherwise; the ceiling is 8."""
    return DraftLengthController(
        PluginSettings(**{"policy": "fixed", **settings}), EngineAbilities(8, "draft_model")
    )


class FailingPolicy:
    """Plans the given length or raises the given exception; always raises in `observe`."""

    def __init__(self, planned: Any) -> None:
        self.planned = planned

    def observe(self, sample: StepSample) -> None:
        raise KeyError("planted")

    def plan(self, load: EngineLoad) -> DraftPlan:
        if isinstance(self.planned, Exception):
            raise self.planned
        return DraftPlan(self.planned, "planted")


def failing(planned: Any, draft_length: int | None = None) -> DraftLengthController:
    """A controller of a `FailingPolicy`; `draft_length` is the static setting."""
    return DraftLengthController(
        PluginSettings(policy="fixed", draft_length=draft_length),
        EngineAbilities(8, "ngram"),
        make_policy=lambda name, **_: FailingPolicy(planned),
    )


class Planned:
    """Returns the given plans in turn."""

    def __init__(self, *plans: DraftPlan) -> None:
        self._plans = list(plans)

    def observe(self, sample: StepSample) -> None:
        """Learns nothing."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return self._plans.pop(0)
