"""Turn finished vLLM steps into the governor's samples.

Reads vLLM's scheduler output, its results and two clock readings, and returns one `StepSample`. No
vLLM object leaves this module.

Timing: when the engine continued without a pause, a step's duration is the time from the previous
step's results to its own; it includes scheduling, execution, drafting and output handling, under
synchronous and asynchronous scheduling alike. After a pause it is the time since the step was
scheduled, and the step is not clean. There may have been a pause wherever no request was running:
the last ones may have been aborted, which ends no step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, filterfalse, repeat
from operator import attrgetter, itemgetter, lt
from types import MappingProxyType
from typing import Any

from paceline.engine.scheduler.request_classes import RequestClasses
from paceline.engine.scheduler.requested_lengths import Requested, RequestedLengths
from paceline.governor.values import EngineLoad, StepSample

_MAX_IN_FLIGHT = 64
"""Bound on steps in flight: two under asynchronous scheduling, one per pipeline stage."""

_ALL: Mapping[str, int] = MappingProxyType({})

VerifiedDraft = tuple[str, int, int]
"""Request id, number of draft tokens verified for it, and number of these accepted."""

ConfidencesOf = Callable[[Sequence[str], Sequence[int]], tuple[tuple[float, ...], ...]]
"""From ids of judged requests and numbers of their verified tokens to the confidences of these."""

# Called once per request and step, so in C: at hundreds of requests, Python calls would take longer
# than the rest of the governor.
_num_computed_tokens = attrgetter("num_computed_tokens")
_num_prompt_tokens = attrgetter("num_prompt_tokens")
_status = attrgetter("status")
_num_stale_output_tokens = attrgetter("num_stale_output_tokens")


@dataclass(slots=True)
class _Step:
    """What is known when a step is scheduled."""

    output: Any
    started_s: float
    num_requests: int
    context_tokens: int
    prefill_tokens: int
    num_prefilling: int
    verified_draft_tokens: int
    requested: Requested
    draft_length: int
    lacks_drafts: bool
    """The step has no drafts to verify, because the drafter was still backfilling its KV cache."""
    catches_up: bool
    resumes: bool


class StepObserver:
    """Follows the steps of one scheduler, in the scheduler's thread.

    Calls per step, in order: `measure_load`, `step_scheduled`, `step_finished`, then `note_drafts`
    under synchronous scheduling. Asynchronous scheduling may schedule a step before the previous
    one has finished.
    """

    def __init__(
        self,
        *,
        drafter_rests: bool,
        allowed_lengths: tuple[int, ...] | None = None,
        can_end_early: bool = True,
        lengths: RequestedLengths | None = None,
        classes: RequestClasses | None = None,
    ) -> None:
        """Create an observer without steps.

        `drafter_rests`: the draft model is skipped at length 0 and backfills its KV cache when
        drafting resumes. `allowed_lengths` is passed on in every `EngineLoad`. `can_end_early`:
        workers that report confidences can also end drafts early. `lengths` has the caps of the
        requests; the observer notes each step's length in it. `classes` has their classes.
        """
        self._drafter_rests = drafter_rests
        self._allowed_lengths = allowed_lengths
        self._can_end_early = can_end_early
        self._in_flight: deque[_Step] = deque(maxlen=_MAX_IN_FLIGHT)
        self._lengths = RequestedLengths() if lengths is None else lengths
        self._classes = RequestClasses() if classes is None else classes
        self._backfilling: set[str] = set()
        """Requests without drafts because the drafter was backfilling its KV cache."""
        self._finished_s: float | None = None
        self._had_more_work = False
        self._num_draft_tokens = 0  # of the step measured last
        self._ended: frozenset[str] = frozenset()  # in the step that finished last

    def measure_load(
        self,
        output: Any,
        requests: Mapping[str, Any],
        *,
        num_waiting: int,
        max_draft_length: int,
        reports_confidences: bool = False,
    ) -> EngineLoad:
        """Return the load of the step just scheduled, before vLLM advances its requests.

        `reports_confidences`: the workers can report confidences.
        """
        num_requests = len(output.num_scheduled_tokens)
        scheduled = list(map(requests.__getitem__, output.num_scheduled_tokens))
        computed = list(map(_num_computed_tokens, scheduled))
        self._num_draft_tokens = sum(map(len, output.scheduled_spec_decode_tokens.values()))
        # All tokens beyond one per request and its drafts count as prompt. (vLLM does not
        # distinguish prefill and decode either.)
        prefill_tokens = max(
            output.total_num_scheduled_tokens - num_requests - self._num_draft_tokens, 0
        )
        decoding: Collection[str] = output.num_scheduled_tokens
        if prefill_tokens:
            prefilling = _prefilling(scheduled, computed, output.num_scheduled_tokens)
            if prefilling:
                decoding = output.num_scheduled_tokens.keys() - prefilling
        drafting, caps = decoding, self._lengths.capped(decoding)
        if 0 in caps.values():
            drafting = {name for name in decoding if caps.get(name) != 0}
        return EngineLoad(
            num_requests=num_requests,
            context_tokens=sum(computed),
            prefill_tokens=prefill_tokens,
            num_waiting=num_waiting,
            max_draft_length=max_draft_length,
            allowed_lengths=self._allowed_lengths,
            num_prefilling=num_requests - len(decoding),
            num_undrafted=len(decoding) - len(drafting),
            reports_confidences=reports_confidences,
            ends_drafts_early=reports_confidences and self._can_end_early,
            classes=self._classes.count(drafting),
        )

    def step_scheduled(
        self,
        output: Any,
        load: EngineLoad,
        *,
        started_s: float,
        draft_length: int,
        resumes: bool = False,
    ) -> None:
        """Note a step that is sent to the worker and proposes `draft_length` tokens.

        `resumes`: no request was running when it was scheduled, so the engine may have been idle
        before it.
        """
        request_ids = output.num_scheduled_tokens
        requested = self._lengths.of(request_ids)
        self._in_flight.append(
            _Step(
                output=output,
                started_s=started_s,
                num_requests=load.num_requests,
                context_tokens=load.context_tokens,
                prefill_tokens=load.prefill_tokens,
                num_prefilling=load.num_prefilling,
                verified_draft_tokens=self._num_draft_tokens,
                requested=requested,
                draft_length=draft_length,
                lacks_drafts=not self._backfilling.isdisjoint(request_ids),
                catches_up=self._drafter_rests and draft_length > 0 and requested.has_rested,
                resumes=resumes,
            )
        )
        self._lengths.note(request_ids, draft_length)

    def note_drafts(self, request_ids: Sequence[str], *, has_any: bool) -> None:
        """Note whether the worker proposed anything for the requests of one step, before a grammar
        removed any of it.

        A draft model proposes tokens for every request, unless it is still backfilling its KV cache
        after a rest.
        """
        if not self._drafter_rests:
            return
        if has_any or not request_ids or self._lengths.planned(request_ids[0]) == 0:
            if self._backfilling:
                self._backfilling.difference_update(request_ids)
        else:
            self._backfilling.update(request_ids)

    def step_finished(
        self,
        output: Any,
        requests: Mapping[str, Any],
        *,
        verified: Sequence[VerifiedDraft],
        now_s: float,
        has_more_work: bool,
        may_speculate: bool,
        num_passes: int | None = None,
        confidences_of: ConfidencesOf | None = None,
        kept: Mapping[str, int] = _ALL,
    ) -> StepSample | None:
        """Return the sample of a step whose results vLLM has processed; None for an unknown step.

        `verified`: the drafts of this step, in order, without grammar-invalid tokens and without
        empty drafts; never more accepted than verified. `has_more_work`: the next step follows
        immediately. `may_speculate` is False when absent drafts say nothing about the drafter.
        `num_passes`: tokens that the step drafted for each request; None where it drafted to the
        planned length. `confidences_of` gives those of the judged drafts. `kept`: the draft tokens
        of each request that were verified, where vLLM left some out; `verified` has these.
        """
        before_s, had_more_work = self._finished_s, self._had_more_work
        self._finished_s, self._had_more_work = now_s, has_more_work
        step = self._take(output)
        if step is None:
            return None
        self._lengths.forget_ended(requests)
        self._classes.forget_ended(requests)
        if self._backfilling:
            self._backfilling &= requests.keys()
        requested, verified_draft_tokens = step.requested, step.verified_draft_tokens
        if kept:
            requested, verified_draft_tokens = requested.limited(kept), sum(kept.values())
        requested_draft_length = requested.longest
        verdicts = _NOT_JUDGED
        if requested_draft_length > 0 and may_speculate and not step.lacks_drafts:
            verdicts = _judge(output.num_scheduled_tokens, requested, requests, verified)
        catches_up = step.catches_up or (step.lacks_drafts and step.draft_length > 0)
        is_back_to_back = had_more_work and before_s is not None and not step.resumes
        since_s = before_s if is_back_to_back and before_s is not None else step.started_s
        confidences: tuple[tuple[float, ...], ...] = ()
        if confidences_of is not None:
            confidences = confidences_of(verdicts.judged, verdicts.drafted)
        return StepSample(
            num_requests=step.num_requests,
            requested_draft_length=requested_draft_length,
            drafted=verdicts.drafted,
            accepted=verdicts.accepted,
            verified_draft_tokens=max(verified_draft_tokens, sum(verdicts.drafted)),
            draft_length=step.draft_length if num_passes is None else num_passes,
            prefill_tokens=step.prefill_tokens,
            context_tokens=step.context_tokens,
            duration_s=max(now_s - since_s, 0.0),
            is_clean=is_back_to_back and step.num_requests > 0 and not catches_up,
            catches_up=catches_up,
            judged=verdicts.judged,
            requested=verdicts.requested,
            classes=self._classes.of(verdicts.judged),
            confidences=confidences,
            num_prefilling=step.num_prefilling,
            num_ended=self._count_ended(output.num_scheduled_tokens, requests),
        )

    def _count_ended(self, scheduled: Mapping[str, int], requests: Mapping[str, Any]) -> int:
        """Return how many requests of the step have ended and were not counted before.

        Under asynchronous scheduling a request that ended is still in the next step.
        """
        if sum(map(requests.__contains__, scheduled)) == len(scheduled):
            self._ended = frozenset()
            return 0
        ended = frozenset(scheduled.keys() - requests.keys())
        num_new = len(ended - self._ended)
        self._ended = ended
        return num_new

    def _take(self, output: Any) -> _Step | None:
        """Return the noted step of this output; drop older ones, which vLLM never finished."""
        while self._in_flight:
            step = self._in_flight.popleft()
            if step.output is output:
                return step
        return None


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """The fields of `StepSample` of the same names."""

    judged: tuple[str, ...] = ()
    requested: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()


_NOT_JUDGED = _Verdicts()


def _prefilling(
    scheduled: Sequence[Any], computed: Sequence[int], num_scheduled: Mapping[str, int]
) -> set[str]:
    """Return the scheduled requests whose prompt does not end in this step.

    A request that recomputes its answer after a preemption counts as decoding once its prompt is
    computed.
    """
    prompts = list(map(_num_prompt_tokens, scheduled))
    # Most requests have computed their prompt before the step.
    is_prompt_left = list(map(lt, computed, prompts))
    return {
        request_id
        for (request_id, num), done, prompt in zip(
            compress(num_scheduled.items(), is_prompt_left),
            compress(computed, is_prompt_left),
            compress(prompts, is_prompt_left),
            strict=True,
        )
        if done + num < prompt
    }


def _judge(
    num_scheduled: Mapping[str, int],
    requested: Requested,
    requests: Mapping[str, Any],
    verified: Sequence[VerifiedDraft],
) -> _Verdicts:
    """Return the judged requests with their requested, drafted and accepted tokens.

    A request is judged unless its step says little about the drafter.
    """
    cut_short = _cut_short(num_scheduled, requests)
    if len(verified) < len(num_scheduled):
        verified = _with_missing_drafts(num_scheduled, requested, verified)
    if cut_short:
        verified = [draft for draft in verified if draft[0] not in cut_short]
    if not verified:
        return _NOT_JUDGED
    judged, drafted, accepted = zip(*verified, strict=True)
    longest, others = requested.longest, requested.others
    if not any(others.values()):
        return _Verdicts(judged, (), drafted, accepted)
    of_judged = tuple(map(others.get, judged, repeat(longest)))
    is_uniform = of_judged.count(longest) == len(of_judged)
    return _Verdicts(judged, () if is_uniform else of_judged, drafted, accepted)


def _with_missing_drafts(
    num_scheduled: Mapping[str, int], requested: Requested, verified: Sequence[VerifiedDraft]
) -> Sequence[VerifiedDraft]:
    """Return the drafts, with an empty one for each request that had none although it was asked.

    Such a request was scheduled for one token.
    """
    without = num_scheduled.keys() - set(map(itemgetter(0), verified))
    empty = {
        request_id: (request_id, 0, 0)
        for request_id in without
        if num_scheduled[request_id] == 1 and requested.of(request_id) > 0
    }
    if not empty:
        return verified
    drafts = {draft[0]: draft for draft in verified} | empty
    return [drafts[request_id] for request_id in num_scheduled if request_id in drafts]


def _cut_short(num_scheduled: Mapping[str, int], requests: Mapping[str, Any]) -> set[str]:
    """Return requests stopped or preempted in this step: their acceptance says little."""
    remaining = list(filter(None, map(requests.get, num_scheduled)))
    ended = (
        set(filterfalse(requests.__contains__, num_scheduled))
        if len(remaining) < len(num_scheduled)
        else set()
    )
    # vLLM forgets a stopped request immediately, except one whose blocks are still being
    # transferred. Statuses are ordered, and the finished ones are the last.
    if remaining and (
        max(remaining, key=_status).is_finished()
        or max(map(_num_stale_output_tokens, remaining)) > 0
    ):
        ended |= {
            request_id
            for request_id in num_scheduled.keys() - ended
            if requests[request_id].is_finished()
            or requests[request_id].num_stale_output_tokens > 0
        }
    return ended
