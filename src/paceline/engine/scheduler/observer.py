"""What a finished vLLM step says, in the governor's words.

Turns vLLM's scheduler output, its results and two clock readings into one `StepSample`. No vLLM
object leaves this file.

Timing: a step's duration is the time from the results of the step before to its own, when the
engine went straight on; it then includes scheduling, execution, drafting and output handling,
under synchronous and asynchronous scheduling alike. After a pause it is the time since the step
was scheduled, and the step is not clean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from paceline.governor.values import EngineLoad, ReplayScores, StepSample

# Steps in flight: two under asynchronous scheduling, one per stage under pipeline parallelism.
_MAX_IN_FLIGHT = 64

VerifiedDraft = tuple[str, int, int]
"""A request, how many draft tokens were verified for it, and how many of them accepted."""

# What runs once per request and step runs in C: at hundreds of requests a call of Python's each
# would take longer than all the rest of the governor.
_num_computed_tokens = attrgetter("num_computed_tokens")
_status = attrgetter("status")
_num_stale_output_tokens = attrgetter("num_stale_output_tokens")


@dataclass(slots=True)
class _Step:
    """What was known when the step was scheduled."""

    output: Any
    started_s: float
    num_requests: int
    context_tokens: int
    prefill_tokens: int
    verified_draft_tokens: int
    asked_draft_length: int
    draft_length: int
    is_behind: bool
    """The drafts that this step verifies never came: the drafter was still catching up."""
    catches_up: bool
    looks_back: bool


class StepObserver:
    """Follows the steps of one scheduler, in the scheduler's thread.

    Order of calls per step: `measure_load`, `step_scheduled`, `step_finished`, `replay_scoring_came`
    and `first_tokens_came` or not, `drafts_came` under synchronous scheduling.
    Asynchronous scheduling may schedule a step before the last one finished.
    """

    def __init__(
        self,
        *,
        drafter_rests: bool,
        has_replay_scoring: bool = False,
        has_first_token_verdicts: bool = False,
    ) -> None:
        """`drafter_rests`: it does nothing at length 0, and catches up when it drafts again.

        `has_replay_scoring`: the workers can judge the drafter on what the target has made already.
        `has_first_token_verdicts`: at length 0 they tell now and then whether its first token came.
        """
        self._drafter_rests = drafter_rests
        self._has_replay_scoring = has_replay_scoring
        self._replay_scoring: ReplayScores | None = None
        self._has_first_token_verdicts = has_first_token_verdicts
        self._first_token_verdicts: tuple[int, ...] = ()
        self._in_flight: deque[_Step] = deque(maxlen=_MAX_IN_FLIGHT)
        self._draft_length = 0
        self._is_behind = False
        self._finished_s: float | None = None
        self._went_on = False
        self._num_draft_tokens = 0  # of the step measured last

    def measure_load(
        self,
        output: Any,
        requests: Mapping[str, Any],
        *,
        num_waiting: int,
        max_draft_length: int,
    ) -> EngineLoad:
        """The load of the step just scheduled, before vLLM advances its requests."""
        num_requests = len(output.num_scheduled_tokens)
        scheduled = map(requests.__getitem__, output.num_scheduled_tokens)
        self._num_draft_tokens = sum(map(len, output.scheduled_spec_decode_tokens.values()))
        return EngineLoad(
            num_requests=num_requests,
            context_tokens=sum(map(_num_computed_tokens, scheduled)),
            # What goes beyond one token per request and its drafts is prompt. (vLLM draws no
            # line between prefill and decode either.)
            prefill_tokens=max(
                output.total_num_scheduled_tokens - num_requests - self._num_draft_tokens, 0
            ),
            num_waiting=num_waiting,
            max_draft_length=max_draft_length,
            has_replay_scoring=self._has_replay_scoring,
            has_first_token_verdicts=self._has_first_token_verdicts,
        )

    def step_scheduled(
        self,
        output: Any,
        load: EngineLoad,
        *,
        started_s: float,
        draft_length: int,
        looks_back: bool = False,
    ) -> None:
        """Note a step that goes to the worker with `draft_length` for its proposals.

        `looks_back`: the drafter has something to tell besides (`evidence`), which takes time.
        """
        self._in_flight.append(
            _Step(
                output=output,
                started_s=started_s,
                num_requests=load.num_requests,
                context_tokens=load.context_tokens,
                prefill_tokens=load.prefill_tokens,
                verified_draft_tokens=self._num_draft_tokens,
                asked_draft_length=self._draft_length,
                draft_length=draft_length,
                is_behind=self._is_behind,
                catches_up=self._drafter_rests and self._draft_length == 0 < draft_length,
                looks_back=looks_back,
            )
        )
        self._draft_length = draft_length

    def drafts_came(self, has_any: bool) -> None:
        """Note whether the worker proposed anything, before a grammar took any of it away.

        A draft model offers something to everyone, unless it rested and is still catching up.
        """
        self._is_behind = self._drafter_rests and self._draft_length > 0 and not has_any

    def replay_scoring_came(self, report: Mapping[str, Any]) -> None:
        """Take in what a worker found in hindsight; the next sample carries it.

        `report` has the fields of `ReplayScores`, or `failed` with the reason: then there is none any
        more. ValueError or TypeError for one that makes no sense, which is left out.
        """
        if "failed" in report:
            self._has_replay_scoring = False
        else:
            self._replay_scoring = ReplayScores(**report)

    def first_tokens_came(self, report: Mapping[str, Any]) -> None:
        """Take in whether first tokens came; the next sample carries it.

        `report` has `verdicts`, or `failed` with the reason: then there are none any more.
        """
        if "failed" in report:
            self._has_first_token_verdicts = False
        else:
            self._first_token_verdicts = report["verdicts"]

    def step_finished(
        self,
        output: Any,
        requests: Mapping[str, Any],
        *,
        verified: Sequence[VerifiedDraft],
        now_s: float,
        goes_on: bool,
        may_speculate: bool,
    ) -> StepSample | None:
        """The sample of a step whose results vLLM has processed; None for a step not known.

        `verified`: the drafts of this step, in order; grammar-invalid tokens taken off, none left
        empty, and never more accepted than verified.
        `goes_on`: the engine has more to do, so the next step follows at once. `may_speculate` is
        False when this step's missing drafts say nothing about the drafter.
        """
        before_s, went_on = self._finished_s, self._went_on
        self._finished_s, self._went_on = now_s, goes_on
        step = self._take(output)
        if step is None:
            return None
        judged: tuple[str, ...] = ()
        drafted: tuple[int, ...] = ()
        accepted: tuple[int, ...] = ()
        if step.asked_draft_length > 0 and may_speculate and not step.is_behind:
            judged, drafted, accepted = _verdicts(output.num_scheduled_tokens, requests, verified)
        catches_up = step.catches_up or (step.is_behind and step.draft_length > 0)
        is_back_to_back = went_on and before_s is not None
        since_s = before_s if is_back_to_back and before_s is not None else step.started_s
        scores, self._replay_scoring = self._replay_scoring, None
        first_tokens, self._first_token_verdicts = self._first_token_verdicts, ()
        return StepSample(
            num_requests=step.num_requests,
            asked_draft_length=step.asked_draft_length,
            drafted=drafted,
            accepted=accepted,
            verified_draft_tokens=max(step.verified_draft_tokens, sum(drafted)),
            draft_length=step.draft_length,
            prefill_tokens=step.prefill_tokens,
            context_tokens=step.context_tokens,
            duration_s=max(now_s - since_s, 0.0),
            is_clean=is_back_to_back
            and step.num_requests > 0
            and not catches_up
            and not step.looks_back,
            catches_up=catches_up,
            judged=judged,
            replay_scores=scores,
            first_token_verdicts=first_tokens,
        )

    def _take(self, output: Any) -> _Step | None:
        """The noted step of this output; older ones, which vLLM never finished, are dropped."""
        while self._in_flight:
            step = self._in_flight.popleft()
            if step.output is output:
                return step
        return None


def _verdicts(
    num_scheduled: Mapping[str, int],
    requests: Mapping[str, Any],
    verified: Sequence[VerifiedDraft],
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """Each request that says something about the drafter, what was drafted and what accepted."""
    cut_short = _cut_short(num_scheduled, requests)
    if len(verified) < len(num_scheduled):
        # To a request that was given one token, the drafter had nothing to offer.
        drafts = {draft[0]: draft for draft in verified}
        for request_id, num_tokens in num_scheduled.items():
            if num_tokens == 1:
                drafts.setdefault(request_id, (request_id, 0, 0))
        verified = [drafts[request_id] for request_id in num_scheduled if request_id in drafts]
    if cut_short:
        verified = [draft for draft in verified if draft[0] not in cut_short]
    if not verified:
        return (), (), ()
    judged, drafted, accepted = zip(*verified, strict=True)
    return judged, drafted, accepted


def _cut_short(num_scheduled: Mapping[str, int], requests: Mapping[str, Any]) -> set[str]:
    """Stopped or preempted in this step: what was accepted then says little about the drafter."""
    gone = num_scheduled.keys() - requests.keys()
    held = [requests[request_id] for request_id in num_scheduled if request_id not in gone]
    # vLLM forgets a stopped request at once, but for one whose blocks are still being sent away;
    # the last of the states are the finished ones.
    if held and (
        max(held, key=_status).is_finished() or max(map(_num_stale_output_tokens, held)) > 0
    ):
        gone |= {
            request_id
            for request_id in num_scheduled.keys() - gone
            if requests[request_id].is_finished()
            or requests[request_id].num_stale_output_tokens > 0
        }
    return gone
