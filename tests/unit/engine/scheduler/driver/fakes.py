"""A fake scheduler with its requests and outputs, and drivers that plan what a test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from paceline.runtime.engine.recording.recorder import Recorder as FileRecorder
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from unit.engine.scheduler.controllers import make_controller


@dataclass(eq=False)
class Output:
    """The fields of vLLM's SchedulerOutput that the driver and the observer use."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)
    num_spec_tokens_to_schedule: int | None = None
    num_invalid_spec_tokens: dict[str, int] | None = None
    skip_drafts: bool = False

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


class Request:
    """The fields of vLLM's Request that are used, for one that is decoding."""

    def __init__(self, *drafts: int, temperature: float | None = 0.0) -> None:
        self.spec_token_ids = list(drafts)
        self.sampling_params = (
            None if temperature is None else SimpleNamespace(temperature=temperature)
        )
        self.num_computed_tokens = 50
        self.num_prompt_tokens = 20
        self.num_stale_output_tokens = 0
        self.status = 2
        self.is_prefill_chunk = False
        self.structured_output_request: object | None = None

    def is_finished(self) -> bool:
        return False


class Scheduler:
    """A scheduler whose requests are all running, and three more wait."""

    def __init__(self, **requests: Request) -> None:
        self.requests = requests

    @property
    def running(self) -> list[Request]:
        return list(self.requests.values())

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.requests), 3

    def has_requests(self) -> bool:
        return True


class Recorder:
    """A policy that plans one length and keeps what it sees."""

    def __init__(self, plan: DraftPlan) -> None:
        self._plan = plan
        self.loads: list[EngineLoad] = []
        self.samples: list[StepSample] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.loads.append(load)
        return self._plan

    def observe(self, sample: StepSample) -> None:
        self.samples.append(sample)


def make_driver(
    policy: Recorder | None = None,
    *,
    recorder: FileRecorder | None = None,
    reproducible_seeds: bool = False,
    **abilities: Any,
) -> GovernorDriver:
    """A driver without a governor of its own; `policy` decides."""
    controller = make_controller()
    if policy is not None:
        controller = DraftLengthController(
            PluginSettings(policy="fixed", draft_length=6),
            EngineAbilities(8, "draft_model"),
            make_policy=lambda name, **_: policy,
        )
    return GovernorDriver(
        controller,
        EngineAbilities(8, "draft_model", **abilities),
        facts={"seams": {"before_schedule": "ok"}, "kernels": {}, "costs": "planted"},
        recorder=recorder,
        reproducible_seeds=reproducible_seeds,
    )


def run_step(
    driver: GovernorDriver,
    scheduler: Scheduler,
    output: Output,
    *,
    verified: list[tuple[str, int, int]] | None = None,
    drafts: Any = None,
    results: Any = None,
) -> Output:
    """One step, as vLLM's synchronous scheduler calls it."""
    driver.before_schedule(scheduler)
    driver.before_step(scheduler, output)
    driver.verified += verified or []
    driver.after_step(scheduler, output, results)
    if drafts is not None:
        driver.after_drafts(scheduler, drafts)
    return output


def proposed(**drafts: list[int]) -> SimpleNamespace:
    """vLLM's DraftTokenIds."""
    return SimpleNamespace(req_ids=list(drafts), draft_token_ids=list(drafts.values()))
