"""Samples made from vLLM's steps, with fakes that have the fields the observer reads.

The hook register checks the real objects for these fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from paceline.runtime.engine.scheduler import step_clock
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.observer import StepObserver
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.governor.values import EngineLoad, StepSample


@dataclass(eq=False)
class Output:
    """The fields of vLLM's SchedulerOutput that the observer reads."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


@dataclass
class Request:
    """The fields of vLLM's Request that the observer reads."""

    num_computed_tokens: int = 50
    num_prompt_tokens: int = 20
    num_stale_output_tokens: int = 0
    finished: bool = False

    @property
    def status(self) -> int:
        """vLLM's statuses are ordered, the finished ones last."""
        return 7 if self.finished else 2

    def is_finished(self) -> bool:
        return self.finished


class Loop:
    """Drives an observer as the scheduler does, at the times that a test says."""

    def __init__(
        self,
        drafter_rests: bool = False,
        caps: Mapping[str, int] | None = None,
        **requests: Request,
    ) -> None:
        self.ledger = RequestLedger()
        for name, cap in (caps or {}).items():
            self.ledger.add(name, "greedy", cap)
        abilities = EngineAbilities(8, "draft_model", drafter_rests=drafter_rests)
        self.observer = StepObserver(abilities, self.ledger)
        self.requests = dict(requests)

    def load(self, output: Output) -> EngineLoad:
        return self.observer.measure_load(output, scheduler_of(self.requests), ceiling=8)

    def schedule(
        self, output: Output, *, at_s: float, draft_length: int, resumes: bool = False
    ) -> None:
        with clock_at(at_s):
            self.observer.begin(SimpleNamespace(running=[] if resumes else ["another"]))
        self.observer.step_scheduled(output, self.load(output), draft_length)

    def finish(
        self,
        output: Output,
        *,
        at_s: float,
        verified: dict[str, tuple[int, int]] | None = None,
        has_more_work: bool = True,
    ) -> StepSample | None:
        with clock_at(at_s):
            finished = self.observer.step_finished(
                output, scheduler_of(self.requests, has_more_work=has_more_work)
            )
        if finished is None:
            return None
        drafts = [(request_id, *counts) for request_id, counts in (verified or {}).items()]
        sample = self.observer.make_sample(
            finished, self.requests, verified=drafts, confidences={}, kept={}
        )
        self.observer.settle(finished.noted, self.requests)
        return sample


def scheduler_of(
    requests: Mapping[str, Request], *, num_waiting: int = 0, has_more_work: bool = True
) -> SimpleNamespace:
    """What the observer reads of vLLM's scheduler."""
    return SimpleNamespace(
        requests=requests,
        get_request_counts=lambda: (len(requests), num_waiting),
        has_requests=lambda: has_more_work,
    )


@contextmanager
def clock_at(now_s: float) -> Iterator[None]:
    """Within the block it is this time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_clock, "time", SimpleNamespace(monotonic=lambda: now_s))
        yield


def test_a_decode_step_after_a_prefill() -> None:
    """A prefill of 20 and 30 tokens proposes 3; then both verify 3, with 2 and 0 accepted."""
    loop = Loop(a=Request(0), b=Request(0))
    prefill = Output({"a": 20, "b": 30})
    loop.schedule(prefill, at_s=1.0, draft_length=3)
    first = loop.finish(prefill, at_s=1.25)
    assert first is not None
    assert (first.prefill_tokens, first.drafted, first.is_clean) == (48, (), False)
    loop.requests = {"a": Request(20), "b": Request(30)}
    decode = Output({"a": 4, "b": 4}, {"a": [7, 8, 9], "b": [7, 8, 9]})
    loop.schedule(decode, at_s=1.25, draft_length=2)
    second = loop.finish(decode, at_s=1.5, verified={"a": (3, 2), "b": (3, 0)})
    assert second == StepSample(
        num_requests=2,
        requested_draft_length=3,
        drafted=(3, 3),
        accepted=(2, 0),
        verified_draft_tokens=6,
        draft_length=2,
        prefill_tokens=0,
        context_tokens=50,
        duration_s=0.25,
        is_clean=True,
        judged=("a", "b"),
    )


def test_a_request_without_a_proposed_draft_is_judged_with_zero() -> None:
    """n-gram found no match for b."""
    loop = Loop(a=Request(), b=Request())
    before = Output({"a": 1, "b": 1})
    loop.schedule(before, at_s=0.0, draft_length=4)
    loop.finish(before, at_s=0.1)
    step = Output({"a": 3, "b": 1}, {"a": [1, 2]})
    loop.schedule(step, at_s=0.1, draft_length=4)
    sample = loop.finish(step, at_s=0.2, verified={"a": (2, 1)})
    assert sample is not None
    assert (sample.drafted, sample.accepted, sample.requested_draft_length) == ((2, 0), (1, 0), 4)
    assert sample.judged == ("a", "b")


@pytest.mark.parametrize(
    "ended",
    [
        Request(finished=True),
        Request(num_stale_output_tokens=1),
        Request(num_stale_output_tokens=4),
        None,
    ],
)
def test_a_request_that_ended_costs_time_but_is_not_judged(ended: Request | None) -> None:
    """Stopped, preempted, or gone: its three draft tokens count as verified only."""
    loop = Loop(a=Request(), b=Request())
    before = Output({"a": 1, "b": 1})
    loop.schedule(before, at_s=0.0, draft_length=3)
    loop.finish(before, at_s=0.1)
    step = Output({"a": 4, "b": 4}, {"a": [1, 2, 3], "b": [1, 2, 3]})
    loop.schedule(step, at_s=0.1, draft_length=3)
    if ended is None:
        del loop.requests["b"]
    else:
        loop.requests["b"] = ended
    sample = loop.finish(step, at_s=0.2, verified={"a": (3, 1), "b": (3, 3)})
    assert sample is not None
    assert (sample.drafted, sample.verified_draft_tokens) == ((3,), 6)


def test_a_step_without_requested_drafts_is_not_judged() -> None:
    loop = Loop(a=Request())
    first, second = Output({"a": 1}), Output({"a": 1})
    loop.schedule(first, at_s=0.0, draft_length=0)
    loop.finish(first, at_s=0.1)
    loop.schedule(second, at_s=0.1, draft_length=3)
    sample = loop.finish(second, at_s=0.2)
    assert sample is not None
    assert sample.drafted == ()


def test_after_a_pause_the_step_is_timed_from_its_own_start() -> None:
    """Idle from 0.1 to 9.0: the step took 0.2 s, and is not clean."""
    loop = Loop(a=Request())
    first, second = Output({"a": 1}), Output({"a": 1})
    loop.schedule(first, at_s=0.0, draft_length=0)
    loop.finish(first, at_s=0.1, has_more_work=False)
    loop.schedule(second, at_s=9.0, draft_length=0)
    sample = loop.finish(second, at_s=9.2)
    assert sample is not None
    assert (sample.duration_s, sample.is_clean) == (pytest.approx(0.2), False)


def test_where_no_request_was_running_the_engine_may_have_been_idle() -> None:
    """The last requests were aborted after 0.1 s, which ends no step, and the next came at 9.0."""
    loop = Loop(a=Request(), b=Request())
    first, second = Output({"a": 1}), Output({"b": 1})
    loop.schedule(first, at_s=0.0, draft_length=0)
    loop.finish(first, at_s=0.1, has_more_work=True)
    loop.schedule(second, at_s=9.0, draft_length=0, resumes=True)
    sample = loop.finish(second, at_s=9.2)
    assert sample is not None
    assert (sample.duration_s, sample.is_clean) == (pytest.approx(0.2), False)


def test_two_steps_in_flight_are_kept_separate() -> None:
    """Asynchronous scheduling: step 2 is scheduled before step 1's results arrive."""
    loop = Loop(a=Request())
    first, second = Output({"a": 4}, {"a": [-1] * 3}), Output({"a": 3}, {"a": [-1] * 2})
    loop.schedule(first, at_s=0.00, draft_length=2)
    loop.schedule(second, at_s=0.01, draft_length=5)
    one = loop.finish(first, at_s=0.10, verified={"a": (3, 1)})
    two = loop.finish(second, at_s=0.14, verified={"a": (2, 2)})
    assert one is not None
    assert two is not None
    assert (one.draft_length, two.draft_length, two.requested_draft_length) == (2, 5, 2)
    assert (two.drafted, two.accepted, two.duration_s) == ((2,), (2,), pytest.approx(0.04))


def test_a_step_that_never_finished_does_not_affect_the_next() -> None:
    """vLLM dropped a step after an execution error; the sample of the next one is still right."""
    loop = Loop(a=Request())
    lost, next_step = Output({"a": 1}), Output({"a": 1})
    loop.schedule(lost, at_s=0.0, draft_length=1)
    loop.schedule(next_step, at_s=0.5, draft_length=2)
    sample = loop.finish(next_step, at_s=0.6)
    assert sample is not None
    assert sample.draft_length == 2
    assert loop.finish(lost, at_s=0.7) is None


def test_a_step_that_backfills_is_marked_and_not_clean() -> None:
    """The drafter rested at 0; the first step that drafts again also computes the backfill."""
    loop = Loop(drafter_rests=True, a=Request(50))
    found = []
    for turn, length in enumerate([2, 0, 0, 3, 3]):
        output = Output({"a": 1})
        loop.schedule(output, at_s=float(turn), draft_length=length)
        sample = loop.finish(output, at_s=turn + 1.0)
        loop.observer.note_drafts(["a"], has_any=length > 0)
        assert sample is not None
        found.append((sample.catches_up, sample.is_clean))
    assert found[1:] == [(False, True), (False, True), (True, False), (False, True)]


def test_a_step_without_any_draft_is_not_judged_while_the_drafter_backfills() -> None:
    """At length 3 it still backfills: missing drafts are no rejections, and the step is not clean.

    Once the step has any draft, a request without one counts: a grammar removed it.
    """
    loop = Loop(drafter_rests=True, a=Request(50))
    samples = []
    for turn, (length, has_any) in enumerate([(0, False), (3, False), (3, True), (3, True)]):
        output = Output({"a": 1})
        loop.schedule(output, at_s=float(turn), draft_length=length)
        samples.append(loop.finish(output, at_s=turn + 1.0))
        loop.observer.note_drafts(["a"], has_any=has_any)
    judged = [(s.drafted, s.catches_up, s.is_clean) for s in samples if s is not None]
    assert judged[1:] == [((), True, False), ((), True, False), ((0,), False, True)]


def test_a_drafter_that_does_not_rest_never_backfills() -> None:
    loop = Loop(drafter_rests=False, a=Request(50))
    for turn, length in enumerate([0, 0, 3]):
        output = Output({"a": 1})
        loop.schedule(output, at_s=float(turn), draft_length=length)
        sample = loop.finish(output, at_s=turn + 1.0)
    assert sample is not None
    assert (sample.catches_up, sample.is_clean) == (False, True)


def test_a_prefill_that_follows_without_a_pause_is_clean() -> None:
    """Its duration is that of its own work, so cost is learned even if all steps have prefills."""
    loop = Loop(a=Request(0), b=Request(0))
    first, second = Output({"a": 20}), Output({"a": 1, "b": 30})
    loop.schedule(first, at_s=1.0, draft_length=0)
    loop.finish(first, at_s=1.25)
    loop.schedule(second, at_s=1.25, draft_length=0)
    sample = loop.finish(second, at_s=1.5)
    assert sample is not None
    assert (sample.prefill_tokens, sample.is_clean) == (29, True)


def test_a_request_prefills_until_its_prompt_ends() -> None:
    """Of prompts of 20, two are computed to tokens 8 and 5, one to its end, and one was computed
    before, whose request decodes with 3 drafts: only the first two are prefilling."""
    loop = Loop(a=Request(0), b=Request(8), c=Request(25), d=Request(0))
    output = Output({"a": 8, "b": 12, "c": 4, "d": 5}, {"c": [7, 8, 9]})
    load = loop.load(output)
    assert (load.prefill_tokens, load.num_prefilling, load.num_decoding) == (22, 2, 2)
    loop.schedule(output, at_s=1.0, draft_length=3)
    sample = loop.finish(output, at_s=1.25, verified={"c": (3, 2)})
    assert sample is not None
    assert sample.num_prefilling == 2


@pytest.mark.parametrize(
    ("caps", "expected"),
    [({}, 8), ({"a": 1}, 8), ({"a": 1, "b": 2}, 2), ({"a": 9, "b": 0}, 8), ({"a": 0, "b": 0}, 0)],
)
def test_nothing_is_planned_beyond_the_highest_cap(caps: dict[str, int], expected: int) -> None:
    """The ceiling is 8. Another request, whose prompt is not at its end, drafts nothing anyway."""
    loop = Loop(caps=caps, a=Request(), b=Request(), c=Request(0))
    assert loop.load(Output({"a": 1, "b": 1, "c": 5})).max_draft_length == expected
    assert loop.load(Output({"a": 1, "c": 5})).max_draft_length == min(caps.get("a", 8), 8)
    assert loop.load(Output({"c": 5})).max_draft_length == 8


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"a": (0.9, 0.8, 0.7), "b": (0.6, 0.5)}, ((0.9, 0.8), (0.6,))),
        ({"a": (0.9, 0.8, 0.7)}, ()),
        ({"a": (0.9, 0.8), "b": ()}, ()),
        ({}, ()),
    ],
)
def test_confidences_are_those_of_the_verified_tokens(
    known: dict[str, tuple[float, ...]], expected: tuple[tuple[float, ...], ...]
) -> None:
    """Empty where a judged request has none."""
    loop = Loop(a=Request(), b=Request())
    before, step = Output({"a": 1, "b": 1}), Output({"a": 3, "b": 2}, {"a": [1, 2], "b": [1]})
    for output in (before, step):
        loop.schedule(output, at_s=0.0, draft_length=3)
        finished = loop.observer.step_finished(output, scheduler_of(loop.requests))
        assert finished is not None
        sample = loop.observer.make_sample(
            finished,
            loop.requests,
            verified=[("a", 2, 1), ("b", 1, 1)] if output is step else [],
            confidences=known,
            kept={},
        )
        loop.observer.settle(finished.noted, loop.requests)
    assert sample.confidences == expected
