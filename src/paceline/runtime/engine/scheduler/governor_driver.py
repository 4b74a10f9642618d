"""Call the governor around each step of one scheduler.

`DraftLengthController` and the governor decide, and `StepObserver` reads vLLM's objects. This
module calls them in the right order and applies the plan to the step's output.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.runtime.engine.drift.drift_watch import DriftWatch
from paceline.runtime.engine.recording.recorder import Recorder
from paceline.runtime.engine.recording.session import category_of
from paceline.runtime.engine.scheduler.control_channel import ControlServer
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.forbidden_drafts import ForbiddenDrafts
from paceline.runtime.engine.scheduler.observer import ScheduledStep, StepObserver, VerifiedDraft
from paceline.runtime.engine.scheduler.reported_drafts import choose_widths, order_drafts, shorten
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.engine.scheduler.request_parameters import UNREADABLE, cap_of, class_of
from paceline.runtime.engine.scheduler.step_clock import FinishedStep
from paceline.runtime.engine.worker.draft_orders import ORDER, REPORT, DraftReport
from paceline.runtime.engine.worker.trimmed_drafts import verified_lengths
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

_NO_DRAFTS = DraftPlan(0, "sampled requests must not be speculated")
_UNUSED = DraftPlan(0, "no request of the step can use drafts")
"""vLLM 0.33 skips the drafts of such a step under Model Runner V2: pieces of prompts, and last
tokens."""


class GovernorDriver:
    """Drives one scheduler's governor. All methods but `state`, `set` and `record` run in its
    thread."""

    def __init__(
        self,
        controller: DraftLengthController,
        abilities: EngineAbilities,
        *,
        facts: Mapping[str, Any],
        reproducible_seeds: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        """Create the driver. `facts` are what else `state` shows, found out at the start.

        `reproducible_seeds`: requests that sample with a seed are not speculated. `recorder`
        records requests and steps while it is on; None refuses to record.
        """
        self._controller = controller
        self._abilities = abilities
        self._ledger = RequestLedger()
        self._forbidden = ForbiddenDrafts(self._ledger, are_drawn=abilities.draws_drafts)
        self._observer = StepObserver(abilities, self._ledger)
        self._reports_confidences = abilities.reports_confidences  # False after a failure, too
        self._confidences: Mapping[str, Sequence[float]] = {}  # of drafts not yet verified
        self._facts = facts
        self._reproducible_seeds = reproducible_seeds
        self._recorder = recorder
        self._drift = DriftWatch()
        self._drafts_dropped = False
        self._finish_step: Callable[..., None] | None = None
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
        fault = self._abilities.sampler_fault
        return {
            **self._controller.state(),
            **self._facts,
            "sampled_speculation": "on" if fault is None else f"off: {fault}",
            "drift": self._drift.state(),
            "forecast_step_seconds": list(self._controller.step_seconds()),
        }

    def set(self, command: Any) -> None:
        """Carry out an operator's command, or raise ValueError. Any thread may call it."""
        self._controller.set(command)

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command on the recording, or raise ValueError. Any thread may call it."""
        if self._recorder is None:
            raise ValueError("this engine does not record")
        return self._recorder.command(command)

    def add_request(self, request: Any, *, is_new: bool = True) -> None:
        """Note the cap and the class of a new request; of more input for one that runs, the cap."""
        cap: int | None = 0
        class_name = UNREADABLE
        parameters = request.sampling_params
        with self._controller.noting_errors("reading a request's parameters"):
            cap = cap_of(parameters, reproducible_seeds=self._reproducible_seeds)
            class_name = class_of(parameters)
        if not is_new:
            self._ledger.limit(request.request_id, cap)
            return
        self._ledger.add(request.request_id, class_name, cap)
        self._record(lambda recorder: recorder.request_added(request, cap))

    def before_schedule(self, scheduler: Any) -> None:
        """Drop all drafts if the sampler is faulty and any request samples.

        The drafts of greedy requests are dropped too: vLLM applies temperature, top-k and top-p to
        every draft token of the batch as soon as one request samples.
        """
        if self._finish_step is not None:
            self._finish_step()  # vLLM reported no drafts
        self._observer.begin(scheduler)
        if self._abilities.sampler_fault is None:
            return
        self._drafts_dropped = any(map(_samples, scheduler.requests.values()))
        if self._drafts_dropped:
            self._ledger.ask(scheduler.requests, 0)
            for request in scheduler.running:
                shorten(request, 0)

    def before_step(self, scheduler: Any, output: Any) -> None:
        """Choose the draft length and set it where the worker and vLLM's placeholders read it."""
        if not output.num_scheduled_tokens:
            return  # no request runs, so none drafts
        try:
            load = self._observer.measure_load(
                output,
                scheduler,
                ceiling=self._controller.ceiling(),
                reports_confidences=self._reports_confidences,
            )
            plan = self._plan(output, load)
            self._observer.step_scheduled(output, load, plan.draft_length)
            if self._reports_confidences:
                order_drafts(output, plan, self._ledger)
        except Exception as error:  # noqa: BLE001 - serving continues with the static setting
            plan = self._controller.fall_back("scheduling", error)
            self._ledger.ask(output.num_scheduled_tokens, plan.draft_length)
        output.num_spec_tokens_to_schedule = (
            self._abilities.max_draft_length
            if self._abilities.always_drafts_maximum
            else plan.draft_length
        )

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
        for request_id, cap in self._ledger.capped(output.num_scheduled_tokens).items():
            shorten(scheduler.requests.get(request_id), cap)

    def after_step(self, scheduler: Any, output: Any, results: Any = None) -> None:
        """Count the step's drafts and pass its sample to the policy.

        `results` is what the worker returned; the answers reach their clients from now on. Where
        drafts are made after the results, or may end early, the policy's sample waits for them
        (`after_drafts`).
        """
        kept: Mapping[str, int] = {}
        with self._controller.noting_errors("reading which drafts were verified"):
            kept = verified_lengths(results)
        finished = self._observer.step_finished(output, scheduler)
        verified, self.verified = self.verified, []
        sample, requests = None, scheduler.requests
        with self._controller.noting_errors("observing"):
            if verified:
                verified = self._count(verified, output.num_invalid_spec_tokens, kept)
            if finished is not None:
                scheduled = output.num_scheduled_tokens
                sample = self._observer.make_sample(
                    finished, requests, verified=verified, confidences=self._confidences, kept=kept
                )
                self._record(
                    lambda recorder: recorder.step_answered(
                        sample, scheduled, requests, self._ledger.capped(scheduled).get
                    )
                )
        finish = functools.partial(self._finish, finished, sample, requests)
        if self._abilities.drafter_rests or hasattr(output, ORDER):
            self._finish_step = finish
        else:
            finish()

    def _finish(
        self,
        finished: FinishedStep[ScheduledStep] | None,
        sample: StepSample | None,
        requests: Mapping[str, Any],
        *,
        num_passes: int | None = None,
        has_drafted: bool = False,
    ) -> None:
        """Use what a step shows; `finished` and `sample` are None for one that was not noted.

        `num_passes`: tokens that it drafted for each request; None for the planned length.
        """
        self._finish_step = None
        if has_drafted:
            finished = self._observer.with_drafts(finished)
        if finished is None:
            return
        if sample is not None:
            if has_drafted:
                sample = replace(sample, duration_s=finished.duration_s)
            if num_passes is not None:
                sample = replace(sample, draft_length=num_passes)
            self._use(sample, requests)
        self._observer.settle(finished.noted, requests)

    def _use(self, sample: StepSample, requests: Mapping[str, Any]) -> None:
        self._controller.observe(sample)
        with self._controller.noting_errors("watching acceptance"):
            self._drift.step_finished(sample, requests, _category_of, self._controller.step_seconds)
        self._record(lambda recorder: recorder.step_finished(sample, requests))

    def _record(self, add: Callable[[Recorder], None]) -> None:
        """Add to the recording under way, if there is one; an error ends it."""
        recorder = self._recorder
        if recorder is None or not recorder.is_recording:
            return
        with self._controller.noting_errors("recording"):
            try:
                add(recorder)
            except Exception as error:
                recorder.fail(error)
                raise

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
        """Read the worker's report, and shorten drafts to the plan, to the requests' caps and
        widths.

        The plan is that of the step that made the drafts. Longer drafts come from drafters with a
        fixed length, and from vLLM itself, which proposes zeros up to the maximum for the whole
        batch when one request is near the context limit.
        """
        request_ids, drafts = draft_token_ids.req_ids, draft_token_ids.draft_token_ids
        report: DraftReport | None = getattr(draft_token_ids, REPORT, None)
        confidences = None if report is None else report.confidences
        if report is not None and report.failure:
            self._reports_confidences = False
            with self._controller.noting_errors("ending drafts early"):
                raise RuntimeError(report.failure)
        num_passes = None if confidences is None else confidences.shape[1]
        has_any = any(drafts)
        if self._abilities.drafter_rests and not has_any:
            num_passes = 0  # the draft model still catches up
        if self._finish_step is not None:
            self._finish_step(num_passes=num_passes, has_drafted=True)
        self._observer.note_drafts(request_ids, has_any=has_any)
        asked = self._ledger.asked(request_ids)
        if max(map(len, drafts), default=0) > min(asked, default=0):
            for request_id, length in zip(request_ids, asked, strict=True):
                shorten(scheduler.requests.get(request_id), length)
        self._confidences = {}
        if confidences is not None:
            with self._controller.noting_errors("verifying a part of the drafts"):
                self._confidences = choose_widths(
                    self._controller, self._ledger, request_ids, confidences, scheduler.requests
                )
        with self._controller.noting_errors("verifying what a grammar forbids"):
            self._forbidden.keep(draft_token_ids, scheduler.requests)

    def hide_forbidden(self, output: Any) -> Any:
        """Return the step's output as vLLM is to see it when it computes the masks of grammars."""
        return self._forbidden.hide(output)


def _category_of(request: Any) -> str:
    return category_of(request.sampling_params)


def _samples(request: Any) -> bool:
    parameters = request.sampling_params
    return parameters is not None and parameters.temperature > 0
