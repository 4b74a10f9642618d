"""A check that cannot observe: its reason, and what the other checks of the observation show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment, finish
from paceline.operations.validate.tiers import Tier, tiers
from paceline.operations.validate.values import Group, Judgement, Missing, Status, Violation, passed

TIER = tiers()["local"]


async def test_a_key_that_the_server_repeats_is_not_in_the_reason() -> None:
    async def fail(found: Deployment) -> None:
        raise Violation("status 401: 'sk-0123456789' is no key, nor is sk-012345")

    observed = deployment()
    observed.secrets = ("sk-0123456789",)
    result = await check(fail).run(observed)
    assert result.reason == "status 401: '***' is no key, nor is ***"


async def test_what_must_be_finished_is_finished_however_often_it_is_cancelled() -> None:
    may_end, has_begun, ended = asyncio.Event(), asyncio.Event(), False

    async def restore() -> None:
        nonlocal ended
        has_begun.set()
        await may_end.wait()
        ended = True

    task = asyncio.create_task(finish(restore()))
    await has_begun.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


def deployment() -> Deployment:
    return Deployment(target=None, tier=TIER)  # type: ignore[arg-type]


def judge(observed: object, tier: Tier) -> Judgement:
    return passed("observed")


def check(observe: Any, max_seconds: float = 60.0) -> Check[Any]:
    return Check("a", Group.API, "a works", observe, judge, max_seconds)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Violation("broken"), Status.FAIL, "broken"),
        (Missing("broken"), Status.SKIP, "broken"),
        (
            TypeError("broken"),
            Status.FAIL,
            "the check cannot read what was observed: TypeError: broken",
        ),
    ],
)
async def test_a_failed_observation_is_not_repeated(
    error: Exception, status: Status, reason: str
) -> None:
    num_observed = 0

    async def fail() -> None:
        nonlocal num_observed
        num_observed += 1
        raise error

    shared = deployment()
    one = check(lambda found: found.once("load", fail))
    results = [await one.run(shared) for _ in range(3)]
    assert [result.status for result in results] == [status] * 3
    assert {result.reason for result in results} == {reason}
    assert num_observed == 1


async def test_an_observation_that_did_not_end_is_not_repeated() -> None:
    num_observed = 0

    async def hang() -> None:
        nonlocal num_observed
        num_observed += 1
        await asyncio.Event().wait()

    shared = deployment()
    one = check(lambda found: found.once("load", hang), max_seconds=0.01)
    first, second = await one.run(shared), await one.run(shared)
    assert first.reason == "the check did not end within 0.01 s"
    assert second.status is Status.FAIL
    assert "load" in second.reason
    assert num_observed == 1


async def test_an_unexpected_error_fails_its_check_only() -> None:
    async def fail(found: Deployment) -> None:
        raise AttributeError("'list' object has no attribute 'get'")

    result = await check(fail).run(deployment())
    assert result.status is Status.FAIL
    assert "AttributeError: 'list' object has no attribute 'get'" in result.reason


async def test_an_unexpected_error_of_a_judgement_fails_its_check_only() -> None:
    def fail(observed: object, tier: Tier) -> Judgement:
        raise KeyError("choices")

    async def observe(found: Deployment) -> None:
        pass

    result = await Check("a", Group.API, "a works", observe, fail).run(deployment())
    assert result.status is Status.FAIL
    assert "KeyError: 'choices'" in result.reason
