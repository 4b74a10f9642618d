"""The time for the load: derived from the tier, and kept with what ran by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.operations.validate.checks import CHECKS
from paceline.operations.validate.checks.performance.load import max_load_seconds
from paceline.operations.validate.tiers import tiers
from paceline.operations.validate.values import Status
from unit.validate.deployments import TIER, running


def test_the_load_of_a_tier_may_take_as_long_as_its_limits_allow() -> None:
    """`local`: 60 requests in each of 2 slots, each 2 s + 31 * 0.25 s."""
    tier = tiers()["local"]
    assert tier.longest_request_s == pytest.approx(9.75)
    assert tier.longest_load_s == pytest.approx(585)
    for tier in tiers().values():
        for check in CHECKS:
            if check.id in ("load-errors", "ttft-p99", "tpot-p99", "acceptance"):
                assert callable(check.max_seconds)
                assert check.max_seconds(tier) == max_load_seconds(tier) > tier.longest_load_s


async def test_a_load_slower_than_its_limits_ends_early_and_is_judged() -> None:
    """The mock engine needs 1 ms for a token; the limits leave 0.1 s for 1,200 of them per slot."""
    tier = replace(TIER, num_requests=400, max_tokens=12, ttft_p99_ms=0.9, tpot_p99_ms=0.01)
    by_id = {check.id: check for check in CHECKS}
    async with running("plain") as deployment:
        deployment.clean.tier = tier
        errors = await deployment.run(by_id["load-errors"])
        ttft = await deployment.run(by_id["ttft-p99"])
    assert errors.status is Status.SKIP
    assert errors.reason.startswith("only ")
    assert " of 400 requests ended within " in errors.reason
    assert ttft.status is Status.FAIL
    assert 0 < errors.figures["num_requests"] < 400  # type: ignore[operator]
