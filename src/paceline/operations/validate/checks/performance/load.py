"""The load of the tier: closed loop, the same prompts in every run, latencies of every request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_specs
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment
from paceline.operations.validate.target.counters import Counters
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Missing, Violation

_NUM_WARMUP = 2
"""Requests per slot that are not counted."""
LOAD_CHECKS = ("load-errors", "ttft-p99", "tpot-p99", "acceptance")
"""The checks that judge the load."""
_TIMEOUT_S = 60.0
"""Of one request."""
_REST_S = 60.0
"""For two readings of the counters."""


def max_load_seconds(tier: Tier) -> float:
    """The longest that `observe_load` takes: both parts end with requests in flight."""
    warmup_s = _NUM_WARMUP * tier.longest_request_s
    return warmup_s + tier.longest_load_s + 2 * _TIMEOUT_S + _REST_S


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The requests of the load, and the counters before and after."""

    records: list[RequestRecord]
    seconds: float
    before: Counters | None
    after: Counters | None
    is_whole: bool = True
    """False if the time for the load ended before all requests were sent."""


async def observe_load(deployment: Deployment) -> LoadResult:
    """Run the load; one run serves all checks.

    It ends early where it takes longer than the tier's limits allow; what ran is judged.
    """
    deployment.refuse_to_load(*LOAD_CHECKS)
    return await deployment.once("load", lambda: _run(deployment))


async def _run(deployment: Deployment) -> LoadResult:
    tier, target, clock = deployment.tier, deployment.target, time.perf_counter
    addresses = target.addresses
    client = StreamingClient(target.session, addresses.url, addresses.api_key, _TIMEOUT_S, clock)
    specs = _specs(deployment)
    warmup = islice(specs, _NUM_WARMUP * tier.concurrency)
    await run_closed_loop(
        client, warmup, tier.concurrency, _NUM_WARMUP * tier.longest_request_s,
        clock, _ignore,
    )  # fmt: skip
    before = await _counters(deployment)
    start_s = clock()
    counted = islice(specs, tier.num_requests)
    records = await run_closed_loop(
        client, counted, tier.concurrency, tier.longest_load_s, clock, _ignore
    )
    seconds = clock() - start_s
    is_whole = next(counted, None) is None
    return LoadResult(records, seconds, before, await _counters(deployment), is_whole)


def _specs(deployment: Deployment) -> Iterator[RequestSpec]:
    """Requests for the given prompts, or for texts whose first lines differ.

    No prefix cache answers the latter, in this run: they are as cold as the traffic's own.
    """
    num = _NUM_WARMUP * deployment.tier.concurrency + deployment.tier.num_requests
    prompts = deployment.prompts or tuple(
        Prompt("validate", None, f"# {number}\n{PROMPTS[number % len(PROMPTS)]}", None)
        for number in range(num)
    )
    sampling = SamplingSettings(
        model=deployment.target.identity.model,
        temperature=0,
        top_p=None,
        max_tokens=deployment.tier.max_tokens,
        seed=0,
        extra_body={},
    )
    return build_specs(prompts, sampling)


async def _counters(deployment: Deployment) -> Counters | None:
    try:
        return await deployment.target.counters()
    except (Missing, Violation):
        return None


def _ignore(record: RequestRecord) -> None:
    pass
