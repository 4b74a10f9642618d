"""Drives a policy of Paceline in the replay: loads and samples as an engine would give them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.governor.recorded_drafts.machines import Machine, MeasuredNoise
from benchmarks.governor.recorded_drafts.recordings import MAX_DRAFT_TOKENS, Ints
from benchmarks.governor.recorded_drafts.replay import Batch, Drafts, StepResult
from paceline.governor.policy import Policy
from paceline.governor.values import DraftPlan, EngineLoad, ReplayScores, StepSample


class GovernedArm:
    """A policy, driven through the `Policy` protocol.

    Durations have noise. As in the engine, a sample judges the requests that continue, replay
    scores arrive with the sample of the next step, and a draft model that runs at length 0 reports
    first-token verdicts when the plan requests them.
    """

    def __init__(self, policy: Policy, machine: Machine, noise: MeasuredNoise) -> None:
        self._policy = policy
        self._machine = machine
        self._noise = noise
        self._plan = DraftPlan(0, "before the first step")
        self._report: ReplayScores | None = None

    def choose(self, batch: Batch) -> Drafts:
        self._plan = self._policy.plan(
            EngineLoad(
                num_requests=batch.num_requests,
                context_tokens=self._machine.context_tokens * batch.num_requests,
                prefill_tokens=0,
                num_waiting=0,
                max_draft_length=MAX_DRAFT_TOKENS,
                has_replay_scoring=self._machine.rests,
                has_first_token_verdicts=not self._machine.rests,
                classes=Counter(batch.classes),
            )
        )
        draft_length, widths = self._draft(batch)
        return Drafts(draft_length, widths, self._plan.replay_scoring_tokens)

    def _draft(self, batch: Batch) -> tuple[int, Ints]:
        """The passes that are run and the tokens verified of each request.

        Here a policy that can stop drafting early would be asked after each pass, and one that can
        leave drafts unverified after the last; `batch.top_logits[:, :j]` is known after pass j.
        """
        length = self._plan.draft_length
        return length, np.full(batch.num_requests, length)

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        length = drafts.draft_length
        judged = ~result.ended if length else np.zeros(batch.num_requests, np.bool_)
        widths = drafts.widths[judged].tolist()
        longest = max(widths, default=length)
        is_uniform = all(width == longest for width in widths)
        classes = np.array(batch.classes)[judged].tolist()
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
                is_clean=not result.caught_up_tokens and result.replay_scores is None,
                catches_up=result.caught_up_tokens > 0,
                judged=tuple(map(str, batch.serials[judged].tolist())),
                requested=() if is_uniform else tuple(widths),
                num_ended=int(np.count_nonzero(result.ended)),
                replay_scores=self._report,
                first_token_verdicts=self._first_token_verdicts(batch, length, result),
                classes=tuple(classes),
            )
        )
        self._report = result.replay_scores

    def _first_token_verdicts(
        self, batch: Batch, length: int, result: StepResult
    ) -> tuple[int, ...]:
        if self._machine.rests or length or not self._plan.requests_first_tokens:
            return ()
        verdicts: list[int] = (batch.acceptable[~result.ended] > 0).astype(np.int64).tolist()
        return tuple(verdicts)
