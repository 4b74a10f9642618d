"""The first draft token that a grammar forbids is verified, so that it is rejected."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    proposed,
    run_step,
)

DRAFTED = [5, 6, 7, 8]


def bound(*allowed: int, temperature: float = 1.0) -> Request:
    """A request of whose drafts vLLM left these, which its grammar allows."""
    request = Request(*allowed, temperature=temperature)
    request.structured_output_request = object()
    return request


def after_a_step(
    request: Request, *, draws_drafts: bool = True, length: int = 4, **limits: int
) -> tuple[Any, Scheduler, Recorder]:
    """The driver, its scheduler and its policy when a step has drafted `DRAFTED`."""
    policy = Recorder(DraftPlan(length, "planted"))
    driver = make_driver(policy, draws_drafts=draws_drafts)
    scheduler = Scheduler(a=request)
    for name, cap in limits.items():
        driver._ledger.add(name, "sampled bound", cap)
    run_step(driver, scheduler, Output({"a": 1}), drafts=proposed(a=DRAFTED))
    return driver, scheduler, policy


def test_the_forbidden_token_is_verified_after_the_allowed_ones() -> None:
    driver, scheduler, _ = after_a_step(bound(5, 6))
    assert scheduler.requests["a"].spec_token_ids == [5, 6, 7]
    output = Output({"a": 4}, {"a": [5, 6, 7]})
    seen = driver.hide_forbidden(output)
    assert seen.scheduled_spec_decode_tokens == {"a": [5, 6, -1]}
    assert output.scheduled_spec_decode_tokens == {"a": [5, 6, 7]}
    assert output.num_invalid_spec_tokens == {"a": 1}


@pytest.mark.parametrize(
    ("request_", "arguments"),
    [
        (bound(5, 6, temperature=0.0), {}),
        (bound(5, 6), {"draws_drafts": False}),
        (Request(5, 6, temperature=1.0), {}),
        (bound(5, 6), {"length": 2}),
        (bound(5, 6), {"a": 2}),
        (bound(*DRAFTED), {}),
    ],
    ids=["greedy", "greedy drafts", "not bound", "planned", "cap", "all allowed"],
)
def test_other_drafts_stay_as_they_are(request_: Request, arguments: dict[str, Any]) -> None:
    """Those that end for another reason than the grammar, and those that vLLM drops exactly."""
    before = list(request_.spec_token_ids)
    driver, _, _ = after_a_step(request_, **arguments)
    assert request_.spec_token_ids == before
    output = Output({"a": 1 + len(before)}, {"a": before})
    assert driver.hide_forbidden(output) is output
    assert output.num_invalid_spec_tokens is None


def test_a_draft_that_the_schedule_cut_before_it_hides_nothing() -> None:
    """Near the end of the step's tokens; the next drafts begin anew."""
    driver, _, _ = after_a_step(bound(5, 6))
    output = Output({"a": 3}, {"a": [5, 6]})
    assert driver.hide_forbidden(output) is output


def test_it_counts_as_invalid_and_not_as_rejected() -> None:
    """Both allowed tokens were accepted. A draft without any counts as one that was not offered."""
    for allowed, sample in (((5, 6), ((2,), (2,))), ((), ((0,), (0,)))):
        driver, scheduler, policy = after_a_step(bound(*allowed))
        drafts = scheduler.requests["a"].spec_token_ids
        output = Output({"a": 1 + len(drafts)}, {"a": drafts})
        driver.hide_forbidden(output)
        run_step(driver, scheduler, output, verified=[("a", len(drafts), len(allowed))])
        assert (policy.samples[-1].drafted, policy.samples[-1].accepted) == sample
        assert driver.state()["drafted_tokens_total"] == len(allowed)


def test_of_ended_requests_nothing_is_kept() -> None:
    driver, scheduler, _ = after_a_step(bound(5, 6))
    assert "a" in driver._forbidden
    scheduler.requests = {"b": Request()}
    run_step(driver, scheduler, Output({"b": 1}), drafts=proposed(b=DRAFTED))
    assert "a" not in driver._forbidden


def test_an_error_leaves_what_vllm_left() -> None:
    request = bound(5, 6)
    request.sampling_params = None
    driver, _, _ = after_a_step(request)
    assert request.spec_token_ids == [5, 6]
    assert driver.state()["policy_errors_total"] == 1
