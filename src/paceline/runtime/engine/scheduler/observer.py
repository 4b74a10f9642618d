"""Turn finished vLLM steps into the governor's samples.

Reads vLLM's scheduler output and its results, and returns one `StepSample` per step. No vLLM object
leaves this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import compress, filterfalse, repeat
from operator import attrgetter, itemgetter, lt
from typing import Any

from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.engine.scheduler.step_clock import (
    FinishedStep,
    StepClock,
    count_prompt_tokens,
)
from paceline.runtime.governor.values import EngineLoad, StepSample

VerifiedDraft = tuple[str, int, int]
"""Request id, number of draft tokens verified for it, and number of these accepted."""

_Verdicts = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]
_NOT_JUDGED: _Verdicts = ((), (), ())

# Called once per request and step, so in C: at hundreds of requests, Python calls would take longer
# than the rest of the governor.
_num_computed_tokens = attrgetter("num_computed_tokens")
_num_prompt_tokens = attrgetter("num_prompt_tokens")
_status = attrgetter("status")
_num_stale_output_tokens = attrgetter("num_stale_output_tokens")


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """What is known when a step is scheduled."""

    num_scheduled: Mapping[str, int]
    """Tokens of each request."""
    decoding: Collection[str]
    """The requests that yield a token."""
    load: EngineLoad
    num_draft_tokens: int
    draft_length: int
    catches_up: bool


class StepObserver:
    """Follows the steps of one scheduler, in the scheduler's thread.

    Calls per step, in order: `begin`, `measure_load`, `step_scheduled`, `step_finished`, then
    `make_sample` and `settle`, and `note_drafts` under synchronous scheduling.
    """

    def __init__(self, abilities: EngineAbilities, ledger: RequestLedger) -> None:
        """Create an observer without steps. It notes in the ledger what is asked of requests."""
        self._abilities = abilities
        self._ledger = ledger
        self._clock: StepClock[ScheduledStep] = StepClock()
        self.begin = self._clock.begin
        """vLLM is about to schedule a step."""
        self.with_drafts = self._clock.with_drafts
        """The workers have made the drafts of the step that finished last."""
        self._without_drafts: set[str] = set()
        """Requests for which a resting drafter made no drafts in their last step: the length was 0,
        or it was still backfilling its KV cache."""
        self._num_draft_tokens = 0  # of the step measured last, as is the next
        self._decoding: Collection[str] = ()
        self._gone: frozenset[str] = frozenset()  # of the step that finished last

    def measure_load(
        self, output: Any, scheduler: Any, *, ceiling: int, reports_confidences: bool = False
    ) -> EngineLoad:
        """Return the load of the step just scheduled, before vLLM advances its requests.

        `ceiling` is the operator's; it is lowered to the highest cap of the requests that yield a
        token, if all have one. `reports_confidences`: the workers still report them.
        """
        num_scheduled = output.num_scheduled_tokens
        scheduled = list(map(scheduler.requests.__getitem__, num_scheduled))
        computed = list(map(_num_computed_tokens, scheduled))
        self._num_draft_tokens, prefill_tokens = count_prompt_tokens(output)
        decoding: Collection[str] = num_scheduled
        if prefill_tokens:
            prefilling = _prefilling(scheduled, computed, num_scheduled)
            if prefilling:
                decoding = num_scheduled.keys() - prefilling
        self._decoding = decoding
        drafting, caps = decoding, self._ledger.capped(decoding)
        if 0 in caps.values():
            drafting = {name for name in decoding if caps.get(name) != 0}
        is_capped = len(caps) == len(decoding) > 0
        return EngineLoad(
            num_requests=len(num_scheduled),
            context_tokens=sum(computed),
            prefill_tokens=prefill_tokens,
            num_waiting=scheduler.get_request_counts()[1],
            max_draft_length=min(ceiling, max(caps.values())) if is_capped else ceiling,
            allowed_lengths=self._abilities.allowed_lengths,
            num_prefilling=len(num_scheduled) - len(decoding),
            num_undrafted=len(decoding) - len(drafting),
            reports_confidences=reports_confidences,
            classes=self._ledger.count_classes(drafting),
        )

    def step_scheduled(self, output: Any, load: EngineLoad, draft_length: int) -> None:
        """Note a step that is sent to the worker and proposes `draft_length` tokens."""
        num_scheduled = output.num_scheduled_tokens
        catches_up = draft_length > 0 and not num_scheduled.keys().isdisjoint(self._without_drafts)
        step = ScheduledStep(
            num_scheduled, self._decoding, load, self._num_draft_tokens, draft_length, catches_up
        )
        self._clock.scheduled(output, step)
        if self._abilities.drafter_rests and draft_length == 0:
            self._without_drafts.update(num_scheduled)
        elif self._without_drafts:
            self._without_drafts.difference_update(num_scheduled)

    def note_drafts(self, request_ids: Sequence[str], *, has_any: bool) -> None:
        """Note whether the worker proposed anything for the requests of one step, before a grammar
        removed any of it.

        A draft model that rests proposes tokens for every request, unless it is still backfilling
        its KV cache, or one of them is near the context limit: then nothing was asked of them.
        """
        if self._abilities.drafter_rests and not has_any:
            self._without_drafts.update(request_ids)
            self._ledger.ask(request_ids, 0)

    def step_finished(self, output: Any, scheduler: Any) -> FinishedStep[ScheduledStep] | None:
        """Return the step whose results vLLM has processed, timed; None for an unknown one."""
        if self._without_drafts:
            self._without_drafts &= scheduler.requests.keys()
        return self._clock.finished(output, scheduler)

    def make_sample(
        self,
        finished: FinishedStep[ScheduledStep],
        requests: Mapping[str, Any],
        *,
        verified: Sequence[VerifiedDraft],
        confidences: Mapping[str, Sequence[float]],
        kept: Mapping[str, int],
    ) -> StepSample:
        """Return the sample of a finished step. Call it once.

        `verified`: the drafts of this step, in order, without grammar-invalid tokens and without
        empty drafts; never more accepted than verified. `confidences`: of each request's draft
        tokens, perhaps more than were verified. `kept`: the draft tokens of each request that were
        verified, where vLLM left some out; `verified` has these.
        """
        step, load, ledger = finished.noted, finished.noted.load, self._ledger
        gone = frozenset(filterfalse(requests.__contains__, step.num_scheduled))
        judged, drafted, accepted = self._judge(step.num_scheduled, requests, verified, gone)
        asked, num_verified = ledger.asked(judged), step.num_draft_tokens
        if kept:
            of_kept = map(kept.get, judged, asked)
            asked, num_verified = tuple(map(min, asked, of_kept)), sum(kept.values())
        longest = max(asked, default=0)
        # Under asynchronous scheduling a request that ended is still in the next step.
        num_ended, self._gone = len(gone - self._gone), gone
        return StepSample(
            num_requests=load.num_requests,
            requested_draft_length=longest,
            drafted=drafted,
            accepted=accepted,
            verified_draft_tokens=max(num_verified, sum(drafted)),
            draft_length=step.draft_length,
            prefill_tokens=load.prefill_tokens,
            context_tokens=load.context_tokens,
            duration_s=finished.duration_s,
            is_clean=finished.is_back_to_back and not step.catches_up,
            catches_up=step.catches_up,
            judged=judged,
            requested=() if asked.count(longest) == len(asked) else asked,
            classes=ledger.classes_of(judged),
            confidences=_confidences_of(judged, drafted, confidences),
            num_prefilling=load.num_prefilling,
            num_ended=num_ended,
        )

    def settle(self, step: ScheduledStep, requests: Mapping[str, Any]) -> None:
        """Note what a finished step drafted, after its sample and before `note_drafts`; forget the
        requests that are gone."""
        self._ledger.ask(step.decoding, step.draft_length)
        if len(step.decoding) < len(step.num_scheduled):
            self._ledger.ask(step.num_scheduled.keys() - step.decoding, 0)
        self._ledger.forget(self._gone)
        self._ledger.forget_aborted(requests)

    def _judge(
        self,
        num_scheduled: Mapping[str, int],
        requests: Mapping[str, Any],
        verified: Sequence[VerifiedDraft],
        gone: Set[str],
    ) -> _Verdicts:
        """Return the drafts of requests that were asked for any, unless their step says little
        about the drafter."""
        if not self._ledger.has_asked:
            return _NOT_JUDGED
        if len(verified) < len(num_scheduled) and 1 in num_scheduled.values():
            verified = self._with_missing_drafts(num_scheduled, verified)
        cut_short = gone | _stopped(num_scheduled, requests)
        if cut_short:
            verified = [draft for draft in verified if draft[0] not in cut_short]
        return tuple(zip(*verified, strict=True)) if verified else _NOT_JUDGED  # type: ignore[return-value]

    def _with_missing_drafts(
        self, num_scheduled: Mapping[str, int], verified: Sequence[VerifiedDraft]
    ) -> Sequence[VerifiedDraft]:
        """Return the drafts, with an empty one for each request that had none although it was
        asked.

        Such a request was scheduled for one token.
        """
        without = num_scheduled.keys() - set(map(itemgetter(0), verified))
        empty = {
            request_id: (request_id, 0, 0)
            for request_id, num_asked in zip(without, self._ledger.asked(without), strict=True)
            if num_asked and num_scheduled[request_id] == 1
        }
        if not empty:
            return verified
        drafts = {draft[0]: draft for draft in verified} | empty
        return [drafts[request_id] for request_id in num_scheduled if request_id in drafts]


def _confidences_of(
    judged: Sequence[str], drafted: Sequence[int], known: Mapping[str, Sequence[float]]
) -> tuple[tuple[float, ...], ...]:
    """Those of the verified tokens of each judged request; empty where one has none."""
    if not known:
        return ()
    rows = map(known.get, judged, repeat(()))
    found = tuple(tuple(row[:length]) for row, length in zip(rows, drafted, strict=True))
    return found if tuple(map(len, found)) == drafted else ()


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
    left = zip(num_scheduled.items(), computed, prompts, strict=True)
    return {
        request_id
        for (request_id, num), done, prompt in compress(left, is_prompt_left)
        if done + num < prompt
    }


def _stopped(num_scheduled: Mapping[str, int], requests: Mapping[str, Any]) -> set[str]:
    """Return requests that were stopped or preempted in this step, and that vLLM still knows.

    It forgets a stopped request immediately, except one whose blocks are still being transferred.
    """
    known = list(filter(None, map(requests.get, num_scheduled)))
    # Statuses are ordered, and the finished ones are the last.
    if not known or not (
        max(known, key=_status).is_finished() or max(map(_num_stale_output_tokens, known)) > 0
    ):
        return set()
    return {
        request_id
        for request_id in num_scheduled.keys() & requests.keys()
        if requests[request_id].is_finished() or requests[request_id].num_stale_output_tokens > 0
    }
