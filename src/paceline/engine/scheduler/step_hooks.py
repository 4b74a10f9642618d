"""How do the steps of vLLM's scheduler and their steering meet?

Everything that decides lives in `steering` and the governor, everything that reads vLLM's objects
in `observer`, what the workers can tell in `evidence`; here they are made for one scheduler and
called around each of its steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.fixes import sampler_check
from paceline.engine.fixes.sampler_check import Executor
from paceline.engine.scheduler.control_channel import ControlServer
from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.drafters import (
    UNTAUGHT,
    DrafterControl,
    Drafting,
    drafter_control,
    drafting_of,
)
from paceline.engine.scheduler.observer import StepObserver, VerifiedDraft
from paceline.engine.scheduler.refusals import refuse_what_loses, refuse_what_must_not_be_served
from paceline.engine.scheduler.settings import parse_settings
from paceline.engine.scheduler.worker_probes import WorkerProbes, ask_workers, take_reports
from paceline.engine.worker.resting_draft import rests
from paceline.engine.worker.v2_draft_length import teach_workers
from paceline.governor.values import DraftPlan

logger = logging.getLogger("vllm.paceline.scheduler")

_NO_DRAFTS = DraftPlan(0, "sampled requests must not be speculated")


class GovernedSteps:
    """Ties one scheduler's steps to its steering. All but `state` and `set` run in its thread."""

    def __init__(
        self,
        steering: DraftLengthController,
        *,
        max_draft_length: int,
        trims: bool,
        drafter_rests: bool,
        evidence: WorkerProbes,
        not_sampled_because: str | None,
        hooks: dict[str, str],
    ) -> None:
        self._steering = steering
        self._observer = StepObserver(
            drafter_rests=drafter_rests,
            has_replay_scoring=evidence.has_replay_scoring,
            has_first_token_verdicts=evidence.first_tokens is not None,
        )
        self._evidence = evidence
        self._max_draft_length = max_draft_length
        self._trims = trims
        self._not_sampled_because = not_sampled_because
        self._seams = hooks
        self._started_s = 0.0
        self._drafts_dropped = False
        self._channel: ControlServer | None = None
        self.verified: list[VerifiedDraft] = []
        """The drafts of the step whose results vLLM is processing, invalid tokens included."""

    def listen(self, path: str) -> None:
        self._channel = ControlServer(path, self)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def state(self) -> dict[str, Any]:
        blocked = self._not_sampled_because
        return {
            **self._steering.state(),
            "sampled_speculation": "on" if blocked is None else f"off: {blocked}",
            "hooks": dict(self._seams),
        }

    def set(self, command: Any) -> None:
        self._steering.set(command)

    def before_schedule(self, scheduler: Any) -> None:
        """Where the sampler cannot be trusted, verify nothing beside a sampled request.

        Not only the sampled request's own drafts: vLLM applies temperature, top-k and top-p to
        every draft token of the batch as soon as one request samples.
        """
        self._started_s = time.monotonic()
        if self._not_sampled_because is None:
            return
        self._drafts_dropped = any(map(_samples, scheduler.requests.values()))
        if self._drafts_dropped:
            for request in scheduler.running:
                if request.spec_token_ids:
                    request.spec_token_ids = []

    def before_step(self, scheduler: Any, output: Any) -> None:
        """Choose the draft length and put it where the worker and vLLM's placeholders read it."""
        if not output.num_scheduled_tokens:
            return  # nothing runs, nothing is drafted
        steering = self._steering
        try:
            load = self._observer.measure_load(
                output,
                scheduler.requests,
                num_waiting=scheduler.get_request_counts()[1],
                max_draft_length=steering.ceiling(),
            )
            plan = _NO_DRAFTS if self._drafts_dropped else steering.plan(load)
            self._observer.step_scheduled(
                output,
                load,
                started_s=self._started_s,
                draft_length=plan.draft_length,
                looks_back=self._evidence.order(output, plan, load),
            )
        except Exception as error:  # noqa: BLE001 - serving goes on with the static setting
            plan = steering.fall_back("scheduling", error)
        length = self._max_draft_length if self._trims else plan.draft_length
        output.num_spec_tokens_to_schedule = length

    def after_step(self, scheduler: Any, output: Any) -> None:
        """Count the step's drafts, and hand its sample to the policy."""
        verified, self.verified = self.verified, []
        try:
            if verified:
                verified = self._count(verified, output.num_invalid_spec_tokens)
            sample = self._observer.step_finished(
                output,
                scheduler.requests,
                verified=verified,
                now_s=time.monotonic(),
                goes_on=scheduler.has_requests(),
                may_speculate=not self._drafts_dropped,
            )
        except Exception as error:  # noqa: BLE001 - one sample less; serving goes on
            self._steering.note_error("observing", error)
            return
        if sample is not None and sample.num_requests > 0:
            self._steering.observe(sample)

    def _count(
        self, verified: list[VerifiedDraft], num_invalid: Mapping[str, int] | None
    ) -> list[VerifiedDraft]:
        """Count drafts as vLLM's metrics do; returns those of which the grammar left something."""
        if num_invalid:
            verified = [(r, drafted - num_invalid.get(r, 0), n) for r, drafted, n in verified]
        _, drafted, accepted = zip(*verified, strict=True)
        self._steering.count_drafts(drafted, accepted)
        if num_invalid:
            verified = [(r, drafted, min(n, drafted)) for r, drafted, n in verified if drafted > 0]
        return verified

    def after_drafts(self, scheduler: Any, draft_token_ids: Any) -> None:
        """Take in what came from the worker: drafts, and reports with them or not.

        And trim what was proposed beyond the plan: by a drafter that cannot be asked for less, and
        by vLLM itself, which hands out zeros, as many as the maximum, beside a request that is too
        long to draft for.
        """
        for error in take_reports(self._observer, draft_token_ids):
            self._steering.note_error("a worker's report", error)
        self._observer.drafts_came(any(draft_token_ids.draft_token_ids))
        length = self._steering.draft_length()
        if max(map(len, draft_token_ids.draft_token_ids), default=0) <= length:
            return
        for request_id in draft_token_ids.req_ids:
            request = scheduler.requests.get(request_id)
            if request is not None and len(request.spec_token_ids) > length:
                # A new list: the drafter's and vLLM's placeholders are shared.
                request.spec_token_ids = request.spec_token_ids[:length]


def start_governor(scheduler: Any) -> GovernedSteps | None:
    """The governor for this scheduler, or None where vLLM runs as it is.

    ValueError for a configuration that must not be served; vLLM then does not start.
    """
    vllm_config = scheduler.vllm_config
    max_draft_length = scheduler.num_spec_tokens
    settings = parse_settings(vllm_config.additional_config, max_draft_length=max_draft_length)
    speculative = vllm_config.speculative_config
    if speculative is None:
        logger.info("Governor: no --speculative-config, so there is nothing to govern")
        return None
    refuse_what_loses(speculative)
    hooks = check_hooks()
    misfit = unfit_for("steering", hooks)
    if misfit:
        logger.error(
            "Governor: this vLLM does not fit, so it runs with its own static draft length: %s",
            misfit,
        )
        return None
    refuse_what_must_not_be_served(vllm_config)
    executor = sampler_check.find_executor()
    not_sampled_because = sampler_check.check_workers(executor)
    if not_sampled_because is not None:
        logger.error(
            "Governor: requests with temperature > 0 are served without speculation: %s",
            not_sampled_because,
        )
    drafter = take_control(drafting_of(vllm_config), executor)
    governor = GovernedSteps(
        DraftLengthController(
            settings, max_draft_length=max_draft_length, method=speculative.method
        ),
        max_draft_length=max_draft_length,
        trims=drafter.how == "trim",
        drafter_rests=rests(vllm_config, scheduler.kv_cache_config),
        evidence=ask_workers(executor),
        not_sampled_because=not_sampled_because,
        hooks=hooks,
    )
    if scheduler.dynamic_sd_lookup is None:
        # A table that always says the maximum, so that only the plan changes the length. With
        # none, vLLM pads every request that joins with one token to the maximum length, with -1:
        # computed for nothing, whatever the draft length is (`schedule`, "Pad new decode
        # requests"). That padding serves full CUDA graphs of one uniform length, which a length
        # that varies does not have.
        scheduler.dynamic_sd_lookup = [max_draft_length] * (scheduler.max_num_running_reqs + 1)
    if settings.control_socket is not None:
        governor.listen(settings.control_socket)
    logger.info(
        "Governor: policy %s, draft length 0 to %d, drafter %s, which %s",
        settings.policy,
        max_draft_length,
        speculative.method,
        drafter.why,
    )
    return governor


def take_control(drafting: Drafting, executor: Executor | None) -> DrafterControl:
    """How the drafter is controlled, once its workers have been taught where that is needed."""
    control = drafter_control(drafting)
    if control.how != "teach":
        return control
    untaught = teach_workers(executor)
    if untaught:
        logger.error("Governor: the drafter always drafts the maximum: %s", untaught)
        return UNTAUGHT
    return control


def _samples(request: Any) -> bool:
    parameters = request.sampling_params
    return parameters is not None and parameters.temperature > 0
