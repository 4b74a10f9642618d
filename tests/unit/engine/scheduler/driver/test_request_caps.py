"""Requests that limit their drafts, and the control channel of a driver."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver
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

NO_EXTRAS: dict[str, Any] = {
    "extra_args": None,
    "min_p": 0.0,
    "logit_bias": None,
    "seed": None,
    "temperature": 1.0,
    "structured_outputs": None,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "allowed_token_ids": None,
    "bad_words": None,
    "min_tokens": 0,
}


def add(driver: GovernorDriver, request_id: str, **parameters: Any) -> None:
    parameters = NO_EXTRAS | parameters
    driver.add_request(
        SimpleNamespace(request_id=request_id, sampling_params=SimpleNamespace(**parameters))
    )


def cap(length: int) -> dict[str, Any]:
    return {"extra_args": {"paceline": {"max_draft_length": length}}}


def test_placeholders_of_a_capped_request_are_shortened() -> None:
    """Asynchronous scheduling sets as many for each request as the plan says."""
    driver = make_driver(Recorder(DraftPlan(3, "planted")))
    add(driver, "a", **cap(1))
    add(driver, "b")
    capped, free = Request(-1, -1, -1), Request(-1, -1, -1)
    output = Output({"a": 1, "b": 1})
    driver.after_schedule(Scheduler(a=capped, b=free), output)
    assert (capped.spec_token_ids, free.spec_token_ids) == ([-1], [-1, -1, -1])


def test_drafts_of_a_capped_request_are_trimmed() -> None:
    driver = make_driver(Recorder(DraftPlan(3, "planted")))
    add(driver, "a", **cap(1))
    capped, free = Request(1, 2, 3), Request(4, 5, 6)
    drafts = proposed(a=[1, 2, 3], b=[4, 5, 6])
    run_step(driver, Scheduler(a=capped, b=free), Output({"a": 1, "b": 1}), drafts=drafts)
    assert (capped.spec_token_ids, free.spec_token_ids) == ([1], [4, 5, 6])


def test_the_highest_cap_of_all_requests_is_the_ceiling() -> None:
    policy = Recorder(DraftPlan(1, "planted"))
    driver = make_driver(policy)
    add(driver, "a", **cap(1))
    add(driver, "b", **cap(2))
    run_step(driver, Scheduler(a=Request(), b=Request()), Output({"a": 1, "b": 1}))
    assert [load.max_draft_length for load in policy.loads] == [2]


def test_a_request_whose_cap_cannot_be_read_is_not_speculated() -> None:
    """It has no sampling parameters that vLLM knows; the error is counted."""
    driver = make_driver()
    driver.add_request(SimpleNamespace(request_id="a", sampling_params=SimpleNamespace()))
    request = Request(1, 2, 3)
    driver.after_schedule(Scheduler(a=request), Output({"a": 1}))
    assert request.spec_token_ids == []
    assert driver.state()["policy_errors_total"] == 1


@pytest.mark.parametrize(
    ("settings", "num_kept"), [({}, 2), ({"reproducible_seeds": True}, 0)], ids=str
)
def test_a_request_with_a_seed_is_speculated_unless_seeds_are_reproducible(
    settings: dict[str, bool], num_kept: int
) -> None:
    driver = make_driver(**settings)
    add(driver, "a", seed=7)
    request = Request(1, 2)
    driver.after_schedule(Scheduler(a=request), Output({"a": 1}))
    assert len(request.spec_token_ids) == num_kept
    assert driver.state()["policy_errors_total"] == 0


def test_after_an_error_the_drafts_of_the_static_setting_are_kept() -> None:
    """The first step fails on a request that vLLM does not know; its drafts have six tokens."""
    driver = make_driver(Recorder(DraftPlan(3, "planted")))
    output = Output({"a": 1})
    driver.before_step(Scheduler(), output)
    assert output.num_spec_tokens_to_schedule == 6
    request = Request(1, 2, 3, 4, 5, 6, 7, 8)
    drafts = proposed(a=list(request.spec_token_ids))
    driver.after_drafts(Scheduler(a=request), drafts)
    assert request.spec_token_ids == [1, 2, 3, 4, 5, 6]


def test_the_driver_listens_until_it_is_closed(tmp_path: Path) -> None:
    """Closing removes the socket; after that the driver may listen again."""
    driver, path = make_driver(), tmp_path / "c.sock"
    for _ in range(2):
        driver.listen(str(path))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60.0)
            connection.connect(str(path))
            connection.sendall(b'{"op": "state"}\n')
            answer = json.loads(connection.makefile("rb").readline())
        assert answer["state"]["seams"] == {"before_schedule": "ok"}
        driver.close()
        assert not path.exists()
