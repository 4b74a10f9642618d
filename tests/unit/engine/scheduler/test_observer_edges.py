"""The edges of what the observer knows: ended requests, single drafts, absent measurements."""

from __future__ import annotations

import pytest

from paceline.runtime.governor.values import StepSample
from unit.engine.scheduler.test_observer import Loop, Output, Request, clock_at, scheduler_of


def step(loop: Loop, output: Output, length: int = 0, **verified: tuple[int, int]) -> StepSample:
    """A step of no duration that drafts `length` tokens."""
    loop.schedule(output, at_s=0.0, draft_length=length)
    sample = loop.finish(output, at_s=0.0, verified=verified)
    assert sample is not None
    return sample


def end(loop: Loop, *names: str) -> StepSample:
    """A step of all requests in which these end."""
    output = Output(dict.fromkeys(loop.requests, 1))
    loop.schedule(output, at_s=0.0, draft_length=0)
    for name in names:
        del loop.requests[name]
    sample = loop.finish(output, at_s=0.0)
    assert sample is not None
    return sample


def test_ended_requests_are_counted_in_the_step_that_ended_them() -> None:
    loop = Loop(a=Request(), b=Request(), c=Request(), d=Request())
    assert [end(loop, *names).num_ended for names in ("ab", "", "c")] == [2, 0, 1]


def test_a_request_that_ended_is_not_counted_again_in_the_step_after() -> None:
    """Asynchronous scheduling has scheduled it once more; b ends in that step."""
    loop = Loop(a=Request(), b=Request(), c=Request())
    first, second = Output({"a": 1, "b": 1, "c": 1}), Output({"a": 1, "b": 1, "c": 1})
    loop.schedule(first, at_s=0.0, draft_length=0)
    loop.schedule(second, at_s=0.0, draft_length=0)
    num_ended = []
    for output, name in ((first, "a"), (second, "b")):
        del loop.requests[name]
        sample = loop.finish(output, at_s=0.0)
        assert sample is not None
        num_ended.append(sample.num_ended)
    assert num_ended == [1, 1]


def test_a_request_with_the_id_of_one_that_ended_long_ago_is_counted() -> None:
    loop = Loop(a=Request(), b=Request())
    assert end(loop, "a").num_ended == 1
    assert end(loop).num_ended == 0
    loop.requests["a"] = Request()
    assert end(loop, "a").num_ended == 1


def test_where_every_request_is_gone_none_is_judged() -> None:
    loop = Loop(a=Request())
    step(loop, Output({"a": 1}), 3)
    output = Output({"a": 4}, {"a": [1, 2, 3]})
    loop.schedule(output, at_s=0.0, draft_length=3)
    loop.requests = {}
    sample = loop.finish(output, at_s=0.0, verified={"a": (3, 1)})
    assert sample is not None
    assert (sample.judged, sample.verified_draft_tokens, sample.num_ended) == ((), 3, 1)


def test_drafts_that_were_not_requested_are_not_judged() -> None:
    loop = Loop(a=Request())
    step(loop, Output({"a": 1}), 0)
    sample = step(loop, Output({"a": 3}, {"a": [1, 2]}), 0, a=(2, 1))
    assert (sample.judged, sample.verified_draft_tokens) == ((), 2)


def test_a_single_token_that_was_requested_and_not_drafted_is_judged() -> None:
    loop = Loop(a=Request(), b=Request())
    step(loop, Output({"a": 1, "b": 1}), 1)
    sample = step(loop, Output({"a": 2, "b": 1}, {"a": [1]}), 1, a=(1, 1))
    assert (sample.judged, sample.drafted, sample.accepted) == (("a", "b"), (1, 0), (1, 0))


def test_nothing_is_asked_of_a_request_that_prefills() -> None:
    """b's prompt ends in the third step, which asks for drafts of it too."""
    loop = Loop(a=Request(), b=Request(0))
    step(loop, Output({"a": 1, "b": 8}), 3)
    assert loop.ledger.asked("ab") == (3, 0)
    step(loop, Output({"a": 1, "b": 12}), 2)
    assert loop.ledger.asked("ab") == (2, 0)
    loop.requests["b"] = Request(8)
    step(loop, Output({"a": 1, "b": 12}), 2)
    assert loop.ledger.asked("ab") == (2, 2)
    loop.requests |= {"a": Request(0), "b": Request()}  # a's prompt is computed again
    step(loop, Output({"a": 8, "b": 1}), 3)
    assert loop.ledger.asked("ab") == (0, 3)


def test_a_rest_that_ends_with_single_drafts_is_caught_up() -> None:
    """At length 1 the drafter backfills for two steps, and nothing is judged meanwhile."""
    loop = Loop(drafter_rests=True, a=Request())
    samples = []
    for length, has_any in ((0, False), (1, False), (1, True), (1, True)):
        samples.append(step(loop, Output({"a": 1}), length))
        loop.observer.note_drafts(["a"], has_any=has_any)
    assert [sample.catches_up for sample in samples] == [False, True, True, False]
    assert [sample.drafted for sample in samples] == [(), (), (), (0,)]


def test_a_step_at_length_0_does_not_catch_up() -> None:
    """The drafter had not finished its backfill when it was switched off again."""
    loop = Loop(drafter_rests=True, a=Request())
    samples = []
    for length in (0, 3, 0):
        samples.append(step(loop, Output({"a": 1}), length))
        loop.observer.note_drafts(["a"], has_any=False)
    assert [sample.catches_up for sample in samples] == [False, True, False]
    assert samples[-1].is_clean


def test_a_request_that_ended_during_a_backfill_is_forgotten() -> None:
    """Another one with its id is not taken for one whose drafter backfills."""
    loop = Loop(drafter_rests=True, a=Request(), b=Request())
    step(loop, Output({"a": 1, "b": 1}), 3)
    loop.observer.note_drafts(["a", "b"], has_any=False)
    del loop.requests["a"]
    step(loop, Output({"b": 1}), 3)
    loop.requests["a"] = Request()
    assert not step(loop, Output({"a": 1}), 3).catches_up


def test_a_step_forgets_requests_that_are_gone() -> None:
    loop = Loop(caps={"a": 1, "aborted": 1, "ended": 1}, a=Request(), ended=Request())
    end(loop, "ended")
    assert loop.ledger.capped(["a", "aborted", "ended"]) == {"a": 1}


@pytest.mark.parametrize(("num_in_flight", "is_known"), [(64, True), (65, False)])
def test_sixty_four_steps_may_be_in_flight(num_in_flight: int, is_known: bool) -> None:
    loop = Loop(a=Request())
    outputs = [Output({"a": 1}) for _ in range(num_in_flight)]
    for output in outputs:
        loop.schedule(output, at_s=0.0, draft_length=0)
    assert (loop.finish(outputs[0], at_s=1.0) is not None) is is_known


def test_fewer_scheduled_tokens_than_drafts_are_no_prefill() -> None:
    """vLLM cut the drafts of a request near its context limit."""
    assert Loop(a=Request()).load(Output({"a": 1}, {"a": [1, 2]})).prefill_tokens == 0


def test_a_step_takes_no_less_than_no_time() -> None:
    """Its results are dated before its start."""
    loop = Loop(a=Request())
    output = Output({"a": 1})
    loop.schedule(output, at_s=5.0, draft_length=0)
    sample = loop.finish(output, at_s=4.5)
    assert sample is not None
    assert sample.duration_s == 0.0


@pytest.mark.parametrize("is_known", [True, False])
def test_the_drafts_of_a_step_take_no_time_of_the_next(is_known: bool) -> None:
    """Its results at 1.5, its drafts at 1.9; the next step ends at 2.0. A step that failed to be
    noted is unknown."""
    loop = Loop(a=Request())
    first, second = Output({"a": 1}), Output({"a": 1})
    loop.schedule(first, at_s=1.0, draft_length=1)
    with clock_at(1.5):
        finished = loop.observer.step_finished(first, scheduler_of(loop.requests))
    assert finished is not None
    with clock_at(1.9):
        found = loop.observer.with_drafts(finished if is_known else None)
    assert (found is None) == (not is_known)
    assert found is None or found.duration_s == pytest.approx(0.9)
    loop.schedule(second, at_s=1.9, draft_length=1)
    sample = loop.finish(second, at_s=2.0)
    assert sample is not None
    assert sample.duration_s == pytest.approx(0.1)
