"""Caps on the drafts of single requests, in vLLM's own scheduler objects without a worker."""

from __future__ import annotations

from typing import Any

import pytest

from engine.in_process.test_scheduler_classes import make_scheduler, results, vllm_config
from paceline.runtime.engine.scheduler.request_parameters import cap_of

pytestmark = pytest.mark.engine

__all__ = ["vllm_config"]


def add(scheduler: Any, request_id: str, **sampling: Any) -> None:
    from vllm import SamplingParams
    from vllm.v1.request import Request

    defaults = {"temperature": 0.0, "max_tokens": 50, "ignore_eos": True}
    parameters = SamplingParams(**{**defaults, **sampling})
    request = Request(
        request_id=request_id,
        prompt_token_ids=list(range(10)),
        sampling_params=parameters,
        pooling_params=None,
    )
    scheduler.add_request(request)


def capped(cap: Any) -> dict[str, Any]:
    return {"extra_args": {"paceline": {"max_draft_length": cap}}}


def next_step(scheduler: Any) -> Any:
    """Run a step, its drafts included, and schedule the next one."""
    from vllm.v1.outputs import DraftTokenIds

    output = scheduler.schedule()
    length = output.num_spec_tokens_to_schedule
    scheduler.update_from_output(output, results(output, num_tokens=1))
    names = list(output.num_scheduled_tokens)
    scheduler.update_draft_token_ids(DraftTokenIds(names, [[7] * length for _ in names]))
    return scheduler.schedule()


def lengths(output: Any) -> dict[str, int]:
    return {name: len(drafts) for name, drafts in output.scheduled_spec_decode_tokens.items()}


def test_drafts_are_trimmed_to_each_requests_cap(vllm_config: Any) -> None:
    """The plan is 3. Caps of 0, 1 and 9; through HTTP the key is flat; b and d set none."""
    scheduler = make_scheduler(vllm_config, is_async=False)
    scheduler.governor.set({"draft_length": 3})
    add(scheduler, "off", **capped(0))
    add(scheduler, "one", **capped(1))
    add(scheduler, "flat", extra_args={"paceline_max_draft_length": 2})
    add(scheduler, "nine", **capped(9))
    add(scheduler, "free")
    add(scheduler, "others", extra_args={"session_id": "x"})
    step = next_step(scheduler)
    assert lengths(step) == {"one": 1, "flat": 2, "nine": 3, "free": 3, "others": 3}
    assert step.num_scheduled_tokens["off"] == 1
    scheduler.update_from_output(step, results(step, num_tokens=1))
    scheduler.schedule()  # where drafts wait for their step, its counts do too
    state = scheduler.governor.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (5, 12)
    assert state["policy_errors_total"] == 0


def test_requests_whose_drafts_cannot_be_verified_exactly_get_none(vllm_config: Any) -> None:
    """Whatever their own cap. vLLM drops the `min_p` of a greedy request."""
    from vllm import SamplingParams

    scheduler = make_scheduler(vllm_config, is_async=False)
    scheduler.governor.set({"draft_length": 3})
    add(scheduler, "bias", logit_bias={5: 1.0}, **capped(3))
    add(scheduler, "min_p of a greedy request", min_p=0.1)
    assert lengths(next_step(scheduler)) == {"min_p of a greedy request": 3}
    assert cap_of(SamplingParams(temperature=1.0, min_p=0.1)) == 0


def test_asynchronous_placeholders_are_capped_too(vllm_config: Any) -> None:
    """The placeholders of the others, which requests share, keep their length."""
    scheduler = make_scheduler(vllm_config, is_async=True)
    scheduler.governor.set({"draft_length": 3})
    add(scheduler, "off", **capped(0))
    add(scheduler, "one", **capped(1))
    add(scheduler, "free")
    first = scheduler.schedule()
    second = scheduler.schedule()
    assert lengths(second) == {"one": 1, "free": 3}
    scheduler.update_from_output(first, results(first, num_tokens=1))
    third = scheduler.schedule()
    assert lengths(third) == {"one": 1, "free": 3}
    assert third.num_scheduled_tokens == {"off": 1, "one": 2, "free": 4}


def test_nothing_is_drafted_that_no_request_allows(vllm_config: Any) -> None:
    """The policy asks for 4; all requests are capped, the highest cap is 1, then 0."""
    scheduler = make_scheduler(vllm_config, is_async=False)
    scheduler.governor.set({"draft_length": 4})
    add(scheduler, "one", **capped(1))
    add(scheduler, "off", **capped(0))
    step = next_step(scheduler)
    assert step.num_spec_tokens_to_schedule == 1
    scheduler.finish_requests("one", _aborted())
    scheduler.update_from_output(step, results(step, num_tokens=1))
    step = scheduler.schedule()
    assert step.num_spec_tokens_to_schedule == 0
    scheduler.update_from_output(step, results(step, num_tokens=1))
    add(scheduler, "free")
    assert scheduler.schedule().num_spec_tokens_to_schedule == 4


def _aborted() -> Any:
    from vllm.v1.request import RequestStatus

    return RequestStatus.FINISHED_ABORTED


@pytest.mark.parametrize("cap", [-1, 1.5, "0", True, [1], {}], ids=repr)
def test_a_cap_that_is_none_switches_speculation_off(
    vllm_config: Any, cap: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM cannot refuse a request in its scheduler; the log says what was given."""
    scheduler = make_scheduler(vllm_config, is_async=False)
    add(scheduler, "a", **capped(cap))
    assert lengths(next_step(scheduler)) == {}
    assert f"cap of the draft length is {cap!r}; it must be a whole number from 0" in caplog.text


def test_seeded_requests_are_served_without_drafts_where_seeds_must_reproduce(
    vllm_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only requests that sample with a seed; greedy ones use no random numbers.

    Without workers the sampler cannot be checked, so the result of the check is invented.
    """
    from paceline.runtime.engine.scheduler import governor_start

    monkeypatch.setattr(governor_start, "check_workers", lambda executor: None)
    vllm_config.additional_config["paceline"]["reproducible_seeds"] = True
    try:
        scheduler = make_scheduler(vllm_config, is_async=False)
    finally:
        del vllm_config.additional_config["paceline"]["reproducible_seeds"]
    add(scheduler, "seeded", temperature=1.0, seed=7)
    add(scheduler, "greedy", temperature=0.0, seed=7)
    add(scheduler, "unseeded", temperature=1.0)
    assert lengths(next_step(scheduler)) == {"greedy": 2, "unseeded": 2}
