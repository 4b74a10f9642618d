"""Call the governor around each step of one scheduler.

`DraftLengthController` and the governor decide, and `StepObserver` reads vLLM's objects. This
module calls them in the right order and applies the plan to the step's output.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.engine.drift.drift_watch import DriftWatch
from paceline.engine.recording.recorder import Recorder
from paceline.engine.recording.session import category_of
from paceline.engine.scheduler.control_channel import ControlServer
from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.forbidden_drafts import ForbiddenDrafts
from paceline.engine.scheduler.observer import StepObserver, VerifiedDraft
from paceline.engine.scheduler.reported_drafts import ReportedDrafts, is_ordered
from paceline.engine.scheduler.request_classes import UNREADABLE, RequestClasses, class_of
from paceline.engine.scheduler.requested_lengths import RequestedLengths, cap_of
from paceline.engine.scheduler.step_costs import StepCosts
from paceline.engine.worker.trimmed_drafts import verified_lengths
from paceline.governor.costs.cost_table import CostTable
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

_NO_DRAFTS = DraftPlan(0, "sampled requests must not be speculated")
_UNUSED = DraftPlan(0, "no request of the step can use drafts")
"""vLLM 0.33 skips the drafts of such a step under Model Runner V2: pieces of prompts, and last
tokens."""


class GovernorDriver:
    """Drives one scheduler's governor. All methods but `state` and `set` run in its thread."""

    def __init__(
        self,
        controller: DraftLengthController,
        *,
        max_draft_length: int,
        trims_drafts: bool,
        drafter_rests: bool,
        allowed_lengths: tuple[int, ...] | None = None,
        reports_confidences: bool = False,
        can_end_early: bool = True,
        draws_drafts: bool = False,
        sampler_fault: str | None,
        hooks: dict[str, str],
        reproducible_seeds: bool = False,
        recorder: Recorder | None = None,
        kernels: Mapping[str, int] | None = None,
        costs: str | None = None,
        cost_table: CostTable | None = None,
    ) -> None:
        """Create the driver; `hooks` is the result of `check_hooks`, for `state`, and `kernels`
        the number of linear layers by kernel.

        `trims_drafts`: the drafter always drafts the maximum, and the surplus is removed here.
        `reports_confidences`: the workers can do so, and with `can_end_early` also end drafts early
        (`worker.early_stop`). `draws_drafts`: the drafter draws the tokens of sampled requests.
        `sampler_fault`: why sampled requests must not be speculated; None when they may.
        `reproducible_seeds`: requests that sample with a seed are not speculated. `recorder`
        records requests and steps while it is on; None refuses to record. `costs` says how the cost
        of steps was measured, and `cost_table` has it, for `state`; None where it was not.
        """
        self._controller = controller
        self._lengths = RequestedLengths()
        self._classes = RequestClasses()
        self._drafts = ReportedDrafts(
            controller, self._lengths, self._classes, is_possible=reports_confidences
        )
        self._forbidden = ForbiddenDrafts(self._lengths, are_drawn=draws_drafts)
        self._observer = StepObserver(
            lengths=self._lengths,
            classes=self._classes,
            drafter_rests=drafter_rests,
            allowed_lengths=allowed_lengths,
            can_end_early=can_end_early,
        )
        self._max_draft_length = max_draft_length
        self._trims_drafts = trims_drafts
        self._sampler_fault = sampler_fault
        self._hooks = hooks
        self._kernels = dict(kernels or {})
        self._costs = "learned while serving" if costs is None else costs
        self._reproducible_seeds = reproducible_seeds
        self._recorder = recorder
        self._drift = DriftWatch()
        self._step_costs = StepCosts(cost_table, max_draft_length)
        self._started_s = 0.0
        self._resumes = False
        self._drafts_dropped = False
        self._step: _ExecutedStep | None = None
        self._channel: ControlServer | None = None
        self.verified: list[VerifiedDraft] = []
        """The drafts of the step whose results vLLM is processing, invalid tokens included."""

    def listen(self, path: str) -> None:
        """Open the control channel at `path`; raise OSError when it is in use."""
        self._channel = ControlServer(path, self)

    def close(self) -> None:
        """Close the control channel and end a recording. Idempotent."""
        if self._channel is not None:
            self._channel.close()
        if self._recorder is not None:
            self._recorder.close()

    def state(self) -> dict[str, Any]:
        """Return the state for the control channel. Any thread may call it."""
        fault = self._sampler_fault
        return {
            **self._controller.state(),
            "drift": self._drift.state(),
            "sampled_speculation": "on" if fault is None else f"off: {fault}",
            "seams": dict(self._hooks),  # the key that operators know
            "kernels": dict(self._kernels),
            "costs": self._costs,
            "forecast_step_seconds": list(self._controller.step_seconds()),
            **self._step_costs.state(),
        }

    def set(self, command: Any) -> None:
        """Carry out an operator's command, or raise ValueError. Any thread may call it."""
        self._controller.set(command)

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command on the recording, or raise ValueError. Any thread may call it."""
        if self._recorder is None:
            raise ValueError("this engine does not record")
        return self._recorder.command(command)

    def add_request(self, request: Any) -> None:
        """Note the cap and the class of a new request."""
        parameters = request.sampling_params
        try:
            cap = cap_of(parameters, reproducible_seeds=self._reproducible_seeds)
        except Exception as error:  # noqa: BLE001 - serving continues
            self._controller.note_error("reading a request's cap", error)
            cap = 0
        try:
            name = class_of(parameters)
        except Exception as error:  # noqa: BLE001 - serving continues
            self._controller.note_error("reading a request's class", error)
            name = UNREADABLE
        self._lengths.set_cap(request.request_id, cap)
        self._classes.set(request.request_id, name)
        if self._recorder is not None and self._recorder.is_recording:
            try:
                self._recorder.request_added(request, cap)
            except Exception as error:  # noqa: BLE001 - serving continues
                self._end_recording(error)

    def before_schedule(self, scheduler: Any) -> None:
        """Drop all drafts if the sampler is faulty and any request samples.

        The drafts of greedy requests are dropped too: vLLM applies temperature, top-k and top-p to
        every draft token of the batch as soon as one request samples.
        """
        if self._step is not None:
            self._finish(self._step, scheduler)  # vLLM reported no drafts
        self._started_s = time.monotonic()
        self._resumes = not scheduler.running
        if self._sampler_fault is None:
            return
        self._drafts_dropped = any(map(_samples, scheduler.requests.values()))
        if self._drafts_dropped:
            for request in scheduler.running:
                if request.spec_token_ids:
                    request.spec_token_ids = []

    def before_step(self, scheduler: Any, output: Any) -> None:
        """Choose the draft length and set it where the worker and vLLM's placeholders read it."""
        if not output.num_scheduled_tokens:
            return  # no request runs, so none drafts
        try:
            load = self._observer.measure_load(
                output,
                scheduler.requests,
                num_waiting=scheduler.get_request_counts()[1],
                max_draft_length=self._lengths.ceiling(
                    output.num_scheduled_tokens, self._controller.ceiling()
                ),
                reports_confidences=self._drafts.is_possible,
            )
            plan = self._plan(output, load)
            self._observer.step_scheduled(
                output,
                load,
                started_s=self._started_s,
                draft_length=plan.draft_length,
                resumes=self._resumes,
            )
            self._drafts.order(output, plan)
        except Exception as error:  # noqa: BLE001 - serving continues with the static setting
            plan = self._controller.fall_back("scheduling", error)
            self._lengths.note(output.num_scheduled_tokens, plan.draft_length)
        length = self._max_draft_length if self._trims_drafts else plan.draft_length
        output.num_spec_tokens_to_schedule = length

    def _plan(self, output: Any, load: EngineLoad) -> DraftPlan:
        if self._drafts_dropped:
            return _NO_DRAFTS
        if getattr(output, "skip_drafts", False):
            return _UNUSED
        recorder, length = self._recorder, None
        if recorder is not None and recorder.is_recording:
            length = recorder.other_length(self._controller.draft_length())
        return self._controller.plan(load, recorded_length=length)

    def after_schedule(self, scheduler: Any, output: Any) -> None:
        """Shorten the placeholders of capped requests, which asynchronous scheduling has set."""
        self._apply_caps(scheduler, output.num_scheduled_tokens)

    def _apply_caps(self, scheduler: Any, request_ids: Collection[str]) -> None:
        for request_id, cap in self._lengths.capped(request_ids).items():
            _trim(scheduler.requests.get(request_id), cap)

    def after_step(self, scheduler: Any, output: Any, results: Any = None) -> None:
        """Count the step's drafts and pass its sample to the policy.

        `results` is what the worker returned. Where drafts may end early, the sample waits for them
        (`after_drafts`).
        """
        try:
            kept = verified_lengths(results)
        except Exception as error:  # noqa: BLE001 - drafts left out count as rejected once
            self._controller.note_error("reading which drafts were verified", error)
            kept = {}
        step = _ExecutedStep(
            output, self.verified, kept, time.monotonic(), scheduler.has_requests()
        )
        self.verified = []
        if is_ordered(output):
            self._step = step
        else:
            self._finish(step, scheduler)

    def _finish(
        self, step: _ExecutedStep, scheduler: Any, *, num_passes: int | None = None
    ) -> None:
        self._step = None
        output, verified = step.output, step.verified
        try:
            if verified:
                verified = self._count(verified, output.num_invalid_spec_tokens, step.kept)
            sample = self._observer.step_finished(
                output,
                scheduler.requests,
                verified=verified,
                kept=step.kept,
                now_s=step.finished_s,
                has_more_work=step.has_more_work,
                may_speculate=not self._drafts_dropped,
                num_passes=num_passes,
                confidences_of=self._drafts.confidences_of,
            )
        except Exception as error:  # noqa: BLE001 - one sample is lost; serving continues
            self._controller.note_error("observing", error)
            return
        if sample is not None:
            self._controller.observe(sample)
            self._step_costs.observe(sample)
            self._watch_drift(sample, scheduler)
            if self._recorder is not None and self._recorder.is_recording:
                self._record_step(self._recorder, sample, scheduler, output)

    def _watch_drift(self, sample: StepSample, scheduler: Any) -> None:
        try:
            self._drift.step_finished(
                sample, scheduler.requests, _category_of, self._controller.step_seconds
            )
        except Exception as error:  # noqa: BLE001 - serving continues
            self._controller.note_error("watching acceptance", error)

    def _record_step(
        self, recorder: Recorder, sample: StepSample, scheduler: Any, output: Any
    ) -> None:
        scheduled = output.num_scheduled_tokens
        try:
            recorder.step_finished(
                sample, scheduled, scheduler.requests, self._lengths.capped(scheduled).get
            )
        except Exception as error:  # noqa: BLE001 - serving continues
            self._end_recording(error)

    def _end_recording(self, error: Exception) -> None:
        self._controller.note_error("recording", error)
        if self._recorder is not None:
            self._recorder.fail(error)

    def _count(
        self,
        verified: list[VerifiedDraft],
        num_invalid: Mapping[str, int] | None,
        kept: Mapping[str, int],
    ) -> list[VerifiedDraft]:
        """Count drafts as vLLM's metrics do, but without tokens that adaptive verification left
        out; return those with a grammar-valid token that was verified, and those of which the
        scheduler knew before the step that they have none."""
        if num_invalid:
            verified = [(r, drafted - num_invalid.get(r, 0), n) for r, drafted, n in verified]
        if kept:
            verified = [(r, min(drafted, kept.get(r, drafted)), n) for r, drafted, n in verified]
        _, drafted, accepted = zip(*verified, strict=True)
        self._controller.count_drafts(drafted, accepted)
        if num_invalid or kept:
            verified = [
                (r, drafted, min(n, drafted))
                for r, drafted, n in verified
                if drafted > 0 or r in self._forbidden
            ]
        return verified

    def after_drafts(self, scheduler: Any, draft_token_ids: Any) -> None:
        """Read the worker's report, and trim drafts to the plan, to the requests' caps and widths.

        The plan is that of the step that made the drafts. Longer drafts come from drafters with a
        fixed length, and from vLLM itself, which proposes zeros up to the maximum for the whole
        batch when one request is near the context limit.
        """
        request_ids = draft_token_ids.req_ids
        confidences = None
        try:
            confidences = self._drafts.read(draft_token_ids)
        except Exception as error:  # noqa: BLE001 - serving continues, with all drafts
            self._controller.note_error("ending drafts early", error)
        if self._step is not None:
            num_passes = None if confidences is None else confidences.shape[1]
            self._finish(self._step, scheduler, num_passes=num_passes)
        self._observer.note_drafts(request_ids, has_any=any(draft_token_ids.draft_token_ids))
        if not request_ids:
            return
        length = self._lengths.planned(request_ids[0])
        if max(map(len, draft_token_ids.draft_token_ids)) > length:
            for request_id in request_ids:
                _trim(scheduler.requests.get(request_id), length)
        self._apply_caps(scheduler, request_ids)
        try:
            self._drafts.choose_widths(request_ids, confidences, scheduler.requests)
        except Exception as error:  # noqa: BLE001 - serving continues, with all drafts
            self._controller.note_error("verifying a part of the drafts", error)
        try:
            self._forbidden.keep(draft_token_ids, scheduler.requests)
        except Exception as error:  # noqa: BLE001 - serving continues, as vLLM alone
            self._controller.note_error("verifying what a grammar forbids", error)

    def hide_forbidden(self, output: Any) -> Any:
        """Return the step's output as vLLM is to see it when it computes the masks of grammars."""
        return self._forbidden.hide(output)


@dataclass(frozen=True, slots=True)
class _ExecutedStep:
    """A step whose results vLLM has processed."""

    output: Any
    verified: list[VerifiedDraft]
    kept: Mapping[str, int]
    """Draft tokens of each request that adaptive verification kept; empty where it kept all."""
    finished_s: float
    has_more_work: bool


def _trim(request: Any, length: int) -> None:
    if request is not None and len(request.spec_token_ids) > length:
        # A new list, because requests share the list of placeholders.
        request.spec_token_ids = request.spec_token_ids[:length]


def _category_of(request: Any) -> str:
    return category_of(request.sampling_params)


def _samples(request: Any) -> bool:
    parameters = request.sampling_params
    return parameters is not None and parameters.temperature > 0
