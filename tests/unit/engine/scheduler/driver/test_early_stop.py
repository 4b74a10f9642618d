"""Widths per request and drafts that end early, on a fake scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.runtime.engine.scheduler import step_clock
from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver
from paceline.runtime.engine.scheduler.reported_drafts import choose_widths
from paceline.runtime.engine.worker.draft_orders import ORDER, REPORT, DraftReport
from paceline.runtime.governor.values import DraftPlan, DraftRule
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    proposed,
    run_step,
)
from unit.engine.scheduler.driver.test_request_caps import NO_EXTRAS, cap

RULE = DraftRule({"sampled": (0.0, 1.0)}, 0.5, (0.1,) * 7)


class Chooser(Recorder):
    """Plans up to 4 tokens by a rule and chooses the widths that a test says."""

    def __init__(self, *widths: Any) -> None:
        super().__init__(DraftPlan(4, "planted", rule=RULE))
        self.widths = list(widths)
        self.asked: list[tuple[Any, Sequence[str], Sequence[int]]] = []

    def choose_widths(self, confidences: Any, classes: Sequence[str], limits: Sequence[int]) -> Any:
        self.asked.append((confidences.tolist(), classes, limits))
        widths = self.widths.pop(0)
        if isinstance(widths, Exception):
            raise widths
        return widths


def start(
    policy: Recorder,
    *,
    reports_confidences: bool = True,
    **requests: dict[str, Any],
) -> tuple[GovernorDriver, Scheduler]:
    """A driver whose requests have arrived with these parameters."""
    driver = make_driver(policy, reports_confidences=reports_confidences)
    for name, parameters in requests.items():
        sampling = SimpleNamespace(**NO_EXTRAS | parameters)
        driver.add_request(SimpleNamespace(request_id=name, sampling_params=sampling))
    return driver, Scheduler(**{name: Request() for name in requests})


def report(drafts: Any, *rows: list[float], failure: str = "") -> Any:
    confidences = None if failure else np.array(rows, dtype=np.float32)
    setattr(drafts, REPORT, DraftReport(confidences, failure))
    return drafts


def draft(
    driver: GovernorDriver,
    scheduler: Scheduler,
    *rows: list[float],
    failure: str = "",
    verified: list[tuple[str, int, int]] | None = None,
) -> Output:
    """A step that drafts two tokens for each request and reports them."""
    drafts = proposed(**{name: [1, 2] for name in scheduler.requests})
    for request in scheduler.requests.values():
        request.spec_token_ids = [1, 2]
    if rows or failure:
        report(drafts, *rows, failure=failure)
    scheduled = dict.fromkeys(scheduler.requests, 1)
    counts = {name: num for name, num, _ in verified or []}
    for name, num in counts.items():
        scheduled[name] += num
    output = Output(scheduled, {name: [1] * num for name, num in counts.items()})
    driver.before_schedule(scheduler)
    driver.before_step(scheduler, output)
    driver.verified += verified or []
    driver.after_step(scheduler, output)
    driver.after_drafts(scheduler, drafts)
    return output


ROWS = [0.9, 0.8], [0.7, 0.6], [0.5, 0.4]


def test_the_rule_and_the_classes_leave_with_the_step() -> None:
    policy = Chooser([2, 2])
    driver, scheduler = start(policy, a={"temperature": 0.0}, b=cap(1))
    output = draft(driver, scheduler, *ROWS[:2])
    order = getattr(output, ORDER)
    assert order.rule is RULE
    assert order.classes == {"a": "greedy", "b": "sampled"}
    assert order.caps == {"b": 1}
    assert output.num_spec_tokens_to_schedule == 4
    [load] = policy.loads
    assert load.reports_confidences
    assert load.classes == {"greedy": 1, "sampled": 1}


def test_without_workers_that_report_nothing_is_ordered() -> None:
    policy = Chooser()
    driver, scheduler = start(policy, reports_confidences=False, a={})
    output = draft(driver, scheduler)
    assert not hasattr(output, ORDER)
    [load] = policy.loads
    assert not load.reports_confidences


def test_drafts_are_shortened_to_their_widths_and_confidences_return_with_the_verdicts() -> None:
    """c's width is 0: no verdict, and nothing that it was not offered. Two passes were made."""
    policy = Chooser([2, 1, 0], [2, 2, 2])
    driver, scheduler = start(policy, a={}, b={}, c={})
    draft(driver, scheduler, *ROWS)
    assert [len(r.spec_token_ids) for r in scheduler.running] == [2, 1, 0]
    draft(driver, scheduler, *ROWS, verified=[("a", 2, 1), ("b", 1, 1)])
    first, second = policy.samples
    assert first.draft_length == 2
    assert second.judged == ("a", "b")
    assert second.requested == (2, 1)
    assert second.requested_draft_length == 2
    assert (second.drafted, second.accepted) == ((2, 1), (1, 1))
    assert second.classes == ("sampled", "sampled")
    assert second.confidences == (
        pytest.approx((0.9, 0.8)),
        pytest.approx((0.7,)),
    )
    assert second.verified_draft_tokens == 3


def test_a_grammar_shortens_a_draft_below_its_width() -> None:
    """a keeps no token and b one of two: what was requested is still their width."""
    policy = Chooser([2, 2], [2, 2])
    driver, scheduler = start(policy, a={"structured_outputs": object()}, b={})
    drafts = report(proposed(a=[1, 2], b=[1, 2]), *ROWS[:2])
    scheduler.requests["b"].spec_token_ids = [1]
    run_step(driver, scheduler, Output({"a": 1, "b": 1}), drafts=drafts)
    assert [limits for _, _, limits in policy.asked] == [[0, 1]]
    draft(driver, scheduler, *ROWS[:2], verified=[("b", 1, 1)])
    sample = policy.samples[-1]
    assert (sample.judged, sample.drafted) == (("a", "b"), (0, 1))
    assert (sample.requested or (sample.requested_draft_length,) * 2) == (2, 2)
    assert sample.confidences == ((), pytest.approx((0.7,)))


def test_requests_that_take_no_drafts_get_no_width() -> None:
    """a computes its prompt, b allows no drafts, c has ended; d allows one token."""
    policy = Chooser([2])
    driver, scheduler = start(policy, a={}, b=cap(0), d=cap(1))
    scheduler.requests["a"].is_prefill_chunk = True
    drafts = report(proposed(a=[1, 2], b=[1, 2], c=[1, 2], d=[1, 2]), *ROWS, [0.3, 0.2])
    scheduler.requests["d"].spec_token_ids = [1, 2]
    run_step(driver, scheduler, Output({"a": 1, "b": 1, "d": 1}), drafts=drafts)
    [(confidences, classes, limits)] = policy.asked
    assert confidences == [pytest.approx([0.3, 0.2])]
    assert classes == ("sampled",)
    assert limits == [1]
    [load] = policy.loads
    assert (load.num_requests, load.num_undrafted) == (3, 1)
    assert load.classes == {"sampled": 2}
    assert scheduler.requests["d"].spec_token_ids == [1]


@pytest.mark.parametrize("widths", [RuntimeError("planted"), [1], [1, 3], [1, -1], [1, 1.0]])
def test_after_a_wrong_choice_all_drafts_are_verified(widths: Any) -> None:
    """An exception, one width too few, more than was drafted, fewer than none, no whole number."""
    policy = Chooser(widths, [2, 2])
    driver, scheduler = start(policy, a={}, b={})
    draft(driver, scheduler, *ROWS[:2])
    assert [len(r.spec_token_ids) for r in scheduler.running] == [2, 2]
    assert driver.state()["policy_errors_total"] == 1
    assert driver.state()["safe_plan"] is False
    draft(driver, scheduler, *ROWS[:2], verified=[("a", 2, 2), ("b", 2, 0)])
    assert policy.samples[-1].drafted == (2, 2)
    assert policy.samples[-1].requested_draft_length == 2


def test_after_a_failure_in_the_workers_nothing_more_is_ordered() -> None:
    policy = Chooser()
    driver, scheduler = start(policy, a={})
    draft(driver, scheduler, failure="planted")
    output = draft(driver, scheduler)
    assert not hasattr(output, ORDER)
    assert [load.reports_confidences for load in policy.loads] == [True, False]
    assert driver.state()["policy_errors_total"] == 1
    assert scheduler.requests["a"].spec_token_ids == [1, 2]


def test_confidences_of_older_drafts_are_not_taken_for_those_of_newer_ones() -> None:
    """The drafts of the second step come without a report."""
    policy = Chooser([2], [2])
    driver, scheduler = start(policy, a={})
    draft(driver, scheduler, ROWS[0])
    draft(driver, scheduler)
    draft(driver, scheduler, ROWS[0], verified=[("a", 2, 1)])
    assert policy.samples[2].drafted == (2,)
    assert policy.samples[2].confidences == ()


def test_a_step_whose_drafts_never_come_is_observed_before_the_next_one() -> None:
    policy = Chooser()
    driver, scheduler = start(policy, a={})
    run_step(driver, scheduler, Output({"a": 1}))
    assert policy.samples == []
    run_step(driver, scheduler, Output({"a": 1}))
    assert [sample.draft_length for sample in policy.samples] == [4]


def test_widths_that_all_are_0_judge_nobody() -> None:
    policy = Chooser([0, 0], [0, 0])
    driver, scheduler = start(policy, a={}, b={})
    draft(driver, scheduler, *ROWS[:2])
    draft(driver, scheduler, *ROWS[:2])
    assert policy.samples[-1].judged == ()
    assert policy.samples[-1].requested_draft_length == 0


def test_a_request_that_ended_in_the_step_leaves_nothing_in_the_ledger() -> None:
    """vLLM reports the drafts of all requests of the step, also of those that it ended."""
    driver, scheduler = start(Chooser([2]), a={}, b={})
    ledger = driver._ledger
    ledger.ask(["a", "b"], 2)
    ledger.forget(["a"])
    del scheduler.requests["a"]
    confidences = np.full((2, 2), 0.9)
    choose_widths(driver._controller, ledger, ["a", "b"], confidences, scheduler.requests)
    assert ledger.asked(["a", "b"]) == (0, 2)
    ledger.forget(["b"])
    assert not ledger.has_asked


@pytest.mark.parametrize(("drafter_rests", "expected"), [(True, 0), (False, 4)])
def test_a_step_whose_drafter_still_catches_up_drafts_nothing(
    drafter_rests: bool, expected: int
) -> None:
    """4 tokens were planned. A drafter that does not rest has spent the time of its plan."""
    policy = Chooser()
    driver = make_driver(policy, reports_confidences=True, drafter_rests=drafter_rests)
    driver.add_request(
        SimpleNamespace(request_id="a", sampling_params=SimpleNamespace(**NO_EXTRAS))
    )
    scheduler, output = Scheduler(a=Request()), Output({"a": 1})
    driver.before_schedule(scheduler)
    driver.before_step(scheduler, output)
    driver.after_step(scheduler, output)
    driver.after_drafts(scheduler, proposed(a=[]))
    [sample] = policy.samples
    assert sample.draft_length == expected


def test_a_step_ends_with_its_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scheduled at 0 s, its tokens leave at 2 s and its drafts are made at 5 s. Where the drafter
    does not rest, the drafts are made before the tokens leave."""
    for drafter_rests, expected in ((True, 5.0), (False, 2.0)):
        now = [0.0]
        monkeypatch.setattr(step_clock, "time", SimpleNamespace(monotonic=lambda now=now: now[0]))
        policy = Chooser()
        driver = make_driver(policy, drafter_rests=drafter_rests)
        driver.add_request(
            SimpleNamespace(request_id="a", sampling_params=SimpleNamespace(**NO_EXTRAS))
        )
        scheduler, output = Scheduler(a=Request()), Output({"a": 1})
        driver.before_schedule(scheduler)
        driver.before_step(scheduler, output)
        now[0] = 2.0
        driver.after_step(scheduler, output)
        now[0] = 5.0
        driver.after_drafts(scheduler, proposed(a=[1, 2]))
        assert [sample.duration_s for sample in policy.samples] == [expected]


def test_more_input_for_a_request_is_no_other_request() -> None:
    """The lower cap holds, and its class is as it was."""
    driver, scheduler = start(Chooser([1]), a=cap(2))
    for parameters, is_new in ((cap(1), False), ({"temperature": 0.0}, False)):
        sampling = SimpleNamespace(**NO_EXTRAS | parameters)
        request = SimpleNamespace(request_id="a", sampling_params=sampling)
        driver.add_request(request, is_new=is_new)
    order = getattr(draft(driver, scheduler, *ROWS[:1]), ORDER)
    assert (order.caps, order.classes) == ({"a": 1}, {"a": "sampled"})
