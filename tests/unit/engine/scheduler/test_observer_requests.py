"""Verdicts belong to the step that drafted: batches in flight together, joining requests, caps."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.observer import StepObserver
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.governor.values import StepSample
from unit.engine.scheduler.test_observer import Loop, Output, Request, scheduler_of


def drafts(num: int, *names: str) -> Output:
    """A step in which each request verifies `num` draft tokens."""
    return Output(
        dict.fromkeys(names, 1 + num), {name: [-1] * num for name in names} if num else {}
    )


def finished(loop: Loop, output: Output, **verified: tuple[int, int]) -> StepSample:
    sample = loop.finish(output, at_s=1.0, verified=verified)
    assert sample is not None
    return sample


def test_two_batches_in_turn_are_each_judged_by_the_step_that_drafted() -> None:
    """A pipeline of two stages: a and b take turns. a drafts 3, b drafts 0, then a verifies its 3.

    The step scheduled last before a's verification is b's, which requested nothing.
    """
    loop = Loop(a=Request(), b=Request())
    steps = [drafts(0, "a"), drafts(0, "b"), drafts(3, "a"), drafts(0, "b"), drafts(5, "a")]
    for output, length in zip(steps, [3, 0, 5, 2, 0], strict=True):
        loop.schedule(output, at_s=0.0, draft_length=length)
    finished(loop, steps[0])
    finished(loop, steps[1])
    of_a = finished(loop, steps[2], a=(3, 2))
    assert (of_a.requested_draft_length, of_a.drafted, of_a.accepted) == (3, (3,), (2,))
    of_b = finished(loop, steps[3])
    assert (of_b.requested_draft_length, of_b.judged) == (0, ())
    assert finished(loop, steps[4], a=(5, 0)).requested_draft_length == 5


def test_a_batch_with_drafts_of_two_steps_says_what_was_requested_of_each_request() -> None:
    """a waited for a step: it drafted 1 token, b then 4. n-gram found only 2 for b."""
    loop = Loop(a=Request(), b=Request())
    both, only_b = drafts(0, "a", "b"), drafts(1, "b")
    loop.schedule(both, at_s=0.0, draft_length=1)
    loop.schedule(only_b, at_s=0.0, draft_length=4)
    again = Output({"a": 2, "b": 3}, {"a": [-1], "b": [-1, -1]})
    loop.schedule(again, at_s=0.0, draft_length=4)
    finished(loop, both)
    finished(loop, only_b, b=(1, 1))
    sample = finished(loop, again, a=(1, 1), b=(2, 0))
    assert sample.requested_draft_length == 4
    assert (sample.judged, sample.requested, sample.drafted) == (("a", "b"), (1, 4), (1, 2))


def test_a_request_that_joins_with_one_token_was_never_asked_for_drafts() -> None:
    """Its whole prompt was cached. Without a draft, it says nothing about the drafter's offers."""
    loop = Loop(a=Request(), new=Request())
    before, step = drafts(0, "a"), Output({"a": 4, "new": 1}, {"a": [-1] * 3})
    loop.schedule(before, at_s=0.0, draft_length=3)
    loop.schedule(step, at_s=0.0, draft_length=3)
    finished(loop, before)
    sample = finished(loop, step, a=(3, 1))
    assert (sample.judged, sample.requested) == (("a",), ())


def test_catching_up_is_of_the_batch_that_rested() -> None:
    """Of two batches in turn, only b's drafter rested at length 0; at 2 its step catches up."""
    loop = Loop(drafter_rests=True, a=Request(), b=Request())
    steps = [drafts(0, "a"), drafts(0, "b"), drafts(2, "a"), drafts(0, "b")]
    for output, length in zip(steps, [2, 0, 2, 2], strict=True):
        loop.schedule(output, at_s=0.0, draft_length=length)
    caught_up = [finished(loop, output).catches_up for output in steps]
    assert caught_up == [False, False, False, True]


def test_missing_drafts_of_one_batch_say_nothing_about_another() -> None:
    """b's drafter still backfills; a's step is judged."""
    loop = Loop(drafter_rests=True, a=Request(), b=Request())
    first, second = drafts(0, "a"), drafts(0, "b")
    loop.schedule(first, at_s=0.0, draft_length=2)
    loop.schedule(second, at_s=0.0, draft_length=2)
    finished(loop, first)
    loop.observer.note_drafts(["a"], has_any=True)
    finished(loop, second)
    loop.observer.note_drafts(["b"], has_any=False)
    of_a, of_b = drafts(2, "a"), drafts(0, "b")
    loop.schedule(of_a, at_s=0.0, draft_length=2)
    loop.schedule(of_b, at_s=0.0, draft_length=2)
    assert finished(loop, of_a, a=(2, 0)).drafted == (2,)
    assert finished(loop, of_b).drafted == ()


def test_a_capped_draft_is_not_an_offer_that_was_missed() -> None:
    """Plan 3; a is capped at 1, b at 0, c drafts all 3. b is not judged."""
    loop = Loop(caps={"a": 1, "b": 0}, a=Request(), b=Request(), c=Request())
    before = drafts(0, "a", "b", "c")
    step = Output({"a": 2, "b": 1, "c": 4}, {"a": [-1], "c": [-1] * 3})
    loop.schedule(before, at_s=0.0, draft_length=3)
    loop.schedule(step, at_s=0.0, draft_length=3)
    finished(loop, before)
    sample = finished(loop, step, a=(1, 1), c=(3, 2))
    assert sample.requested_draft_length == 3
    assert (sample.judged, sample.requested) == (("a", "c"), (1, 3))
    assert (sample.drafted, sample.accepted) == ((1, 3), (1, 2))


def test_where_all_are_capped_alike_the_cap_is_what_was_requested() -> None:
    loop = Loop(caps={"a": 1}, a=Request())
    before, step = drafts(0, "a"), drafts(1, "a")
    loop.schedule(before, at_s=0.0, draft_length=3)
    loop.schedule(step, at_s=0.0, draft_length=3)
    finished(loop, before)
    sample = finished(loop, step, a=(1, 0))
    assert (sample.requested_draft_length, sample.requested, sample.drafted) == (1, (), (1,))


def test_a_request_capped_at_0_takes_no_drafts_and_its_class_does_not_count() -> None:
    """c and d are capped at 0, and d computes the first 5 tokens of its prompt: it yields none. b
    may draft one token."""
    loop = Loop(a=Request(), b=Request(), c=Request(), d=Request(0))
    for name, kind, cap in (
        ("a", "greedy", None),
        ("b", "sampled", 1),
        ("c", "sampled", 0),
        ("d", "sampled", 0),
        ("of another step", "sampled", 0),
    ):
        loop.ledger.add(name, kind, cap)
    load = loop.load(Output({"a": 1, "b": 1, "c": 1, "d": 5}))
    assert (load.num_requests, load.num_prefilling, load.num_undrafted) == (4, 1, 1)
    assert (load.num_decoding, load.num_drafting) == (3, 2)
    assert load.classes == {"greedy": 1, "sampled": 1}


def test_where_no_request_takes_drafts_there_are_no_classes() -> None:
    load = Loop(caps={"a": 0}, a=Request()).load(drafts(0, "a"))
    assert (load.num_undrafted, load.num_drafting, load.classes) == (1, 0, {})


@pytest.mark.parametrize("reports", [True, False])
def test_drafts_end_early_where_workers_report_confidences(reports: bool) -> None:
    load = StepObserver(EngineAbilities(8, "draft_model"), RequestLedger()).measure_load(
        drafts(0, "a"), scheduler_of({"a": Request()}), ceiling=8, reports_confidences=reports
    )
    assert load.reports_confidences == reports
