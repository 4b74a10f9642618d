"""What the driver does with each step, on a fake scheduler, and the state that it reports."""

from __future__ import annotations

import pytest

from paceline.runtime.governor.values import DraftPlan, EngineLoad
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    proposed,
    run_step,
)


def test_the_plan_is_written_where_the_worker_reads_it() -> None:
    """The policy sees the load: the waiting requests and the ceiling included."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    driver.set({"ceiling": 5})
    output = run_step(driver, Scheduler(a=Request(), b=Request()), Output({"a": 1, "b": 4}))
    assert output.num_spec_tokens_to_schedule == 3
    assert policy.loads == [EngineLoad(2, 100, 3, 3, 5)]
    assert [sample.draft_length for sample in policy.samples] == [3]


def test_a_drafter_of_fixed_length_drafts_the_maximum_and_the_plan_is_kept() -> None:
    """Its drafts are trimmed to the plan; shorter drafts stay, unknown requests are ignored."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy, always_drafts_maximum=True)
    longer, shorter = Request(), Request()
    scheduler = Scheduler(a=longer, b=shorter)
    shared = [1, 2, 3, 4, 5, 6, 7, 8]
    longer.spec_token_ids, shorter.spec_token_ids = shared, [1, 2]
    drafts = proposed(a=shared, gone=shared, b=[1, 2])
    output = run_step(driver, scheduler, Output({"a": 1, "b": 1}), drafts=drafts)
    assert output.num_spec_tokens_to_schedule == 8
    assert longer.spec_token_ids == [1, 2, 3]
    assert shorter.spec_token_ids == [1, 2]
    assert shared == [1, 2, 3, 4, 5, 6, 7, 8]


def test_drafts_of_the_planned_length_are_not_touched() -> None:
    driver = make_driver(Recorder(DraftPlan(3, "planted")))
    request = Request()
    request.spec_token_ids = drafts = [1, 2, 3]
    run_step(driver, Scheduler(a=request), Output({"a": 1}), drafts=proposed(a=drafts))
    assert request.spec_token_ids is drafts


def test_a_step_without_requests_is_neither_planned_nor_observed() -> None:
    policy = Recorder(DraftPlan(3, "planted"))
    output = run_step(make_driver(policy), Scheduler(), Output({}))
    assert (policy.loads, policy.samples) == ([], [])
    assert output.num_spec_tokens_to_schedule is None


@pytest.mark.parametrize(
    ("fault", "temperature", "length", "num_kept"),
    [
        ("planted", 0.7, 0, 0),
        ("planted", 0.0, 3, 2),
        ("planted", None, 3, 2),  # a pooling request
        (None, 0.7, 3, 2),
    ],
)
def test_with_a_faulty_sampler_nothing_is_drafted_while_any_request_samples(
    fault: str | None, temperature: float | None, length: int, num_kept: int
) -> None:
    """Drafts of greedy requests are dropped too, and the policy is not asked meanwhile."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy, sampler_fault=fault)
    greedy, other = Request(1, 2), Request(3, 4, temperature=temperature)
    output = run_step(driver, Scheduler(a=greedy, b=other), Output({"a": 1, "b": 1}))
    assert output.num_spec_tokens_to_schedule == length
    assert (len(greedy.spec_token_ids), len(other.spec_token_ids)) == (num_kept, num_kept)
    assert len(policy.loads) == (length > 0)
    assert driver.state()["sampled_speculation"] == ("on" if fault is None else f"off: {fault}")


def test_drafts_that_were_dropped_say_nothing_about_the_drafter() -> None:
    """A step that verifies nothing, because one request samples, judges nobody."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy, sampler_fault="planted")
    greedy = Scheduler(a=Request())
    run_step(driver, greedy, Output({"a": 1}))
    run_step(driver, Scheduler(a=Request(), b=Request(temperature=1.0)), Output({"a": 1, "b": 1}))
    run_step(driver, greedy, Output({"a": 1}))
    run_step(driver, greedy, Output({"a": 1}))
    assert [sample.drafted for sample in policy.samples] == [(), (), (), (0,)]


def test_a_step_whose_drafts_vllm_skips_asks_for_none() -> None:
    """A piece of a prompt, then the prompt's last token, which is a step of one token without
    drafts: nothing was requested of it, so the drafter is not judged."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request())
    piece = run_step(driver, scheduler, Output({"a": 16}, skip_drafts=True))
    assert piece.num_spec_tokens_to_schedule == 0
    run_step(driver, scheduler, Output({"a": 1}))
    run_step(driver, scheduler, Output({"a": 1}))
    assert [sample.draft_length for sample in policy.samples] == [0, 3, 3]
    assert [sample.drafted for sample in policy.samples] == [(), (), (0,)]
    assert len(policy.loads) == 2


def test_verified_drafts_belong_to_their_step_only() -> None:
    """Counted once, as vLLM does; the next step starts without any."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request(), b=Request())
    run_step(driver, scheduler, Output({"a": 1, "b": 1}))
    second = Output({"a": 4, "b": 4}, {"a": [1, 2, 3], "b": [4, 5, 6]})
    run_step(driver, scheduler, second, verified=[("a", 3, 2), ("b", 3, 0)])
    run_step(driver, scheduler, Output({"a": 1, "b": 1}))
    assert [(s.drafted, s.accepted) for s in policy.samples] == [
        ((), ()),
        ((3, 3), (2, 0)),
        ((0, 0), (0, 0)),
    ]
    state = driver.state()
    assert (state["drafted_tokens_total"], state["accepted_tokens_total"]) == (6, 2)


def test_tokens_that_break_the_grammar_are_not_judged() -> None:
    """a: 2 of 3 are invalid, so 1 is judged. b: all are, so nothing is. c has none invalid."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request(), b=Request(), c=Request())
    run_step(driver, scheduler, Output({"a": 1, "b": 1, "c": 1}))
    tokens = {name: [1, 2, 3] for name in "abc"}
    output = Output(dict.fromkeys("abc", 4), tokens, num_invalid_spec_tokens={"a": 2, "b": 3})
    run_step(driver, scheduler, output, verified=[("a", 3, 1), ("b", 3, 0), ("c", 3, 3)])
    assert [(s.drafted, s.accepted) for s in policy.samples[1:]] == [((1, 3), (1, 3))]
    assert driver.state()["drafted_tokens_total"] == 4


def test_a_step_is_timed_from_its_schedule_unless_it_follows_another() -> None:
    """The steps of a busy scheduler follow one another, so the second one is clean."""
    policy = Recorder(DraftPlan(0, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request())
    for _ in range(3):
        run_step(driver, scheduler, Output({"a": 1}))
    assert [sample.is_clean for sample in policy.samples] == [False, True, True]
    assert all(0.0 <= (sample.duration_s or 0.0) < 60.0 for sample in policy.samples)


def test_a_step_that_finds_no_request_running_follows_no_other() -> None:
    """All requests were aborted, and another one came: the engine may have been idle meanwhile."""
    policy = Recorder(DraftPlan(0, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request())
    run_step(driver, scheduler, Output({"a": 1}))
    scheduler.requests = {}
    driver.before_schedule(scheduler)
    scheduler.requests = {"b": Request()}
    output = Output({"b": 1})
    driver.before_step(scheduler, output)
    driver.after_step(scheduler, output)
    run_step(driver, scheduler, Output({"b": 1}))
    assert [sample.is_clean for sample in policy.samples] == [False, False, True]


def test_an_error_before_a_step_gives_the_static_setting() -> None:
    """A request that vLLM no longer knows; the step has no sample, the next one works again."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    assert run_step(driver, Scheduler(), Output({"a": 1})).num_spec_tokens_to_schedule == 6
    state = driver.state()
    assert (state["safe_plan"], state["policy_errors_total"], policy.samples) == (True, 1, [])
    output = run_step(driver, Scheduler(a=Request()), Output({"a": 1}))
    assert (output.num_spec_tokens_to_schedule, driver.state()["safe_plan"]) == (3, False)


def test_an_error_after_a_step_loses_only_its_sample() -> None:
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request())
    driver.before_schedule(scheduler)
    output = Output({"a": 1})
    driver.before_step(scheduler, output)
    driver.verified = [("a", 1, 2)]  # more accepted than drafted
    output.num_invalid_spec_tokens = {"a": "planted"}  # type: ignore[dict-item]
    driver.after_step(scheduler, output)
    assert (driver.state()["policy_errors_total"], policy.samples) == (1, [])
    run_step(driver, scheduler, Output({"a": 1}))
    [sample] = policy.samples
    assert (sample.requested_draft_length, sample.drafted) == (3, (0,))


def test_while_a_resting_drafter_backfills_its_missing_drafts_are_not_judged() -> None:
    """The drafter proposes nothing until its cache is complete. The first step misses nothing."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy, drafter_rests=True)
    scheduler = Scheduler(a=Request())
    for drafts in ([], [1, 2, 3], []):
        run_step(driver, scheduler, Output({"a": 1}), drafts=proposed(a=drafts))
    assert [sample.drafted for sample in policy.samples] == [(), (), (0,)]
    assert [sample.catches_up for sample in policy.samples] == [False, True, False]


def test_without_a_socket_closing_does_nothing() -> None:
    driver = make_driver()
    driver.close()
    driver.close()


def test_the_keys_of_the_state_are_those_that_operators_know() -> None:
    """A new key is added here; a key that is renamed or gone breaks who reads it."""
    driver = make_driver()
    state = driver.state()
    assert set(state) == {
        "policy",
        "policy_parameters",
        "draft_length",
        "ceiling",
        "costs",
        "forecast_step_seconds",
        "length_steps",
        "measured_step_seconds",
        "table_step_seconds",
        "step_slowdown",
        "drafted_per_position_total",
        "safe_plan_reason",
        "max_draft_length",
        "allowed_lengths",
        "method",
        "reason",
        "safe_plan",
        "drafted_tokens_total",
        "accepted_tokens_total",
        "num_drafts_total",
        "accepted_fraction",
        "accepted_per_position_total",
        "steps_total",
        "safe_plan_steps_total",
        "policy_errors_total",
        "goodput_tokens_per_s",
        "expected_goodput_tokens_per_s",
        "draft_length_changes_total",
        "last_change_reason",
        "settled_length",
        "seconds_total",
        "off_seconds_total",
        "exploring_seconds_total",
        "safe_plan_seconds_total",
        "drift",
        "sampled_speculation",
        "seams",
        "kernels",
    }
    assert state["sampled_speculation"] == "on"
    assert state["drift"] == {"categories": {}, "events": []}
    assert state["seams"] == {"before_schedule": "ok"}
