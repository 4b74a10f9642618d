"""Drafts that vLLM's adaptive verification left out are neither accepted nor rejected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    run_step,
)

NAMES = ("a", "b", "c")


def results(boundaries: list[int] | None) -> Any:
    """vLLM's ModelRunnerOutput with the report of a worker."""
    attributes = {} if boundaries is None else {"paceline_logit_boundaries": np.array(boundaries)}
    return SimpleNamespace(req_ids=list(NAMES), **attributes)


def verify(boundaries: list[int] | None, **output: Any) -> tuple[Recorder, dict[str, Any]]:
    """A step that drafts 3 tokens for each of three requests, and one that verifies them."""
    policy = Recorder(DraftPlan(3, "planted"))
    driver = make_driver(policy)
    scheduler = Scheduler(a=Request(), b=Request(), c=Request())
    run_step(driver, scheduler, Output(dict.fromkeys(NAMES, 1)))
    drafts = {name: [-1, -1, -1] for name in NAMES}
    run_step(
        driver,
        scheduler,
        Output(dict.fromkeys(NAMES, 4), drafts, **output),
        verified=[("a", 3, 3), ("b", 3, 1), ("c", 3, 0)],
        results=results(boundaries),
    )
    return policy, driver.state()


def test_without_a_report_all_drafts_were_verified() -> None:
    policy, state = verify(None)
    sample = policy.samples[-1]
    assert (sample.drafted, sample.accepted, sample.requested) == ((3, 3, 3), (3, 1, 0), ())
    assert sample.verified_draft_tokens == 9
    assert (state["drafted_tokens_total"], state["accepted_tokens_total"]) == (9, 4)


def test_tokens_that_were_left_out_are_not_judged_and_took_no_time() -> None:
    """3, 1 and 0 of 3 tokens were verified. The drafter is not blamed for the others: only what was
    verified counts as requested."""
    policy, state = verify([0, 4, 6, 7])
    sample = policy.samples[-1]
    assert sample.judged == ("a", "b")
    assert (sample.drafted, sample.accepted, sample.requested) == ((3, 1), (3, 1), (3, 1))
    assert sample.verified_draft_tokens == 4
    assert (state["drafted_tokens_total"], state["accepted_tokens_total"]) == (4, 4)


def test_grammar_invalid_tokens_and_those_left_out_are_counted_once() -> None:
    """Both are at the end: of b's 3 tokens, 1 is valid and 2 are verified; of a's, 2 and 1."""
    policy, _ = verify([0, 2, 5, 9], num_invalid_spec_tokens={"a": 1, "b": 2})
    sample = policy.samples[-1]
    assert sample.drafted == (1, 1, 3)
    assert sample.accepted == (1, 1, 0)


def test_a_report_that_cannot_be_read_is_counted_as_an_error() -> None:
    policy, state = verify([0, 4])
    assert policy.samples[-1].drafted == (3, 3, 3)
    assert state["policy_errors_total"] == 1
