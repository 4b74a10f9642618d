"""Drives a policy of Paceline in the replay: loads and samples as an engine would give them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.governor.recorded_drafts.machines import DraftingMode, Machine, MeasuredNoise
from benchmarks.governor.recorded_drafts.recordings import MAX_DRAFT_TOKENS, Floats
from benchmarks.governor.recorded_drafts.replay import Batch, Drafts, StepResult
from paceline.runtime.governor.acceptance.confidence_map import sigmoid
from paceline.runtime.governor.drafting.drafting_round import DraftingRound
from paceline.runtime.governor.policy import ChoosesWidths, Policy
from paceline.runtime.governor.values import DraftRule, EngineLoad, StepSample


class GovernedArm:
    """A policy, driven through the `Policy` protocol, and `ChoosesWidths` where it has that.

    Durations have noise. As in the engine, a sample judges the requests that continue.
    """

    def __init__(
        self,
        policy: Policy,
        machine: Machine,
        noise: MeasuredNoise,
        *,
        mode: DraftingMode = "lengths",
        shows_classes: bool = True,
    ) -> None:
        """`shows_classes` is whether the policy sees the classes of requests."""
        self._policy = policy
        self._machine = machine
        self._noise = noise
        self._mode = mode
        self._shows_classes = shows_classes
        self._confidences: Floats | None = None

    def choose(self, batch: Batch) -> Drafts:
        plan = self._policy.plan(
            EngineLoad(
                num_requests=batch.num_requests,
                context_tokens=self._machine.context_tokens * batch.num_requests,
                prefill_tokens=0,
                num_waiting=0,
                max_draft_length=MAX_DRAFT_TOKENS,
                reports_confidences=self._mode != "lengths",
                classes=Counter(batch.classes) if self._shows_classes else {},
            )
        )
        num_passes, self._confidences = plan.draft_length, None
        widths = np.full(batch.num_requests, num_passes)
        if self._mode == "lengths" or not num_passes:
            return Drafts(num_passes, widths)
        confidences, classes = sigmoid(batch.top_logits), self._classes(batch)
        if plan.rule is not None:
            num_passes = _run_passes(plan.rule, classes, confidences, num_passes)
            assert isinstance(self._policy, ChoosesWidths)
            limits = [num_passes] * batch.num_requests
            widths = np.array(
                self._policy.choose_widths(confidences[:, :num_passes], classes, limits)
            )
        self._confidences = confidences
        return Drafts(num_passes, widths)

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        length = drafts.draft_length
        judged = ~result.ended if length else np.zeros(batch.num_requests, np.bool_)
        widths = drafts.widths[judged].tolist()
        longest = max(widths, default=length)
        is_uniform = all(width == longest for width in widths)
        classes = np.array(batch.classes)[judged].tolist() if self._shows_classes else ()
        self._policy.observe(
            StepSample(
                num_requests=batch.num_requests,
                requested_draft_length=longest,
                drafted=tuple(widths),
                accepted=tuple(result.accepted[judged].tolist()),
                verified_draft_tokens=int(drafts.widths.sum()),
                draft_length=length,
                prefill_tokens=0,
                context_tokens=self._machine.context_tokens * batch.num_requests,
                duration_s=self._noise.measure(result.seconds),
                is_clean=not result.caught_up_tokens,
                catches_up=result.caught_up_tokens > 0,
                judged=tuple(map(str, batch.serials[judged].tolist())),
                requested=() if is_uniform else tuple(widths),
                num_ended=int(np.count_nonzero(result.ended)),
                classes=tuple(classes),
                confidences=self._verified_confidences(judged, widths),
            )
        )

    def _classes(self, batch: Batch) -> list[str]:
        return batch.classes if self._shows_classes else [""] * batch.num_requests

    def _verified_confidences(
        self, judged: np.ndarray, widths: list[int]
    ) -> tuple[tuple[float, ...], ...]:
        if self._confidences is None:
            return ()
        rows = self._confidences[judged].tolist()
        return tuple(tuple(row[:width]) for row, width in zip(rows, widths, strict=True))


def _run_passes(rule: DraftRule, classes: list[str], confidences: Floats, max_passes: int) -> int:
    """The passes that are run, up to `max_passes`."""
    drafting = DraftingRound(rule, classes)
    for num_passes, column in enumerate(confidences.T[:max_passes], start=1):
        drafting.add_pass(column)
        if not drafting.wants_more():
            return num_passes
    return max_passes
