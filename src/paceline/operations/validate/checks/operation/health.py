"""Health, readiness and the metrics page."""

from __future__ import annotations

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment
from paceline.operations.validate.target.counters import REQUIRED, Counters
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, failed, passed


async def _observe_health(deployment: Deployment) -> Reply:
    reply = await deployment.target.request("GET", "/health", sends_key=False)
    if reply.status in (404, 405) and deployment.target.identity.kind == "other":
        raise Missing(f"the server has no /health (status {reply.status})")
    return reply


def judge_status(reply: Reply, tier: Tier) -> Judgement:
    """200."""
    if reply.status != 200:
        return failed(f"{reply.asked} gets status {reply.status}, expected 200: {reply.text}")
    return passed(f"{reply.asked} gets status 200")


async def _observe_ready(deployment: Deployment) -> Reply:
    kind = deployment.target.identity.kind
    if kind != "paceline":
        raise Missing(f"/ready is Paceline's; the server is a {kind}")
    return await deployment.target.request("GET", "/ready", sends_key=False)


async def _observe_counters(deployment: Deployment) -> Counters:
    """The first page with all families: a gateway that just started has not read its replicas."""
    return await deployment.target.settle(lambda now: now.values.keys() >= set(REQUIRED))


def judge_families(counters: Counters, tier: Tier) -> Judgement:
    """All families that a server of this dialect must show, with values that can be."""
    for family in REQUIRED:
        if counters[family] < 0:
            return failed(f"{family} are {counters[family]}, which is negative")
    return passed(
        f"the page has the families of {counters.dialect} for load, cache and output",
        num_families=len(counters.values),
    )


CHECKS = (
    Check(
        "health",
        Group.OPERATION,
        "/health answers",
        _observe_health,
        judge_status,
    ),
    Check(
        "ready",
        Group.OPERATION,
        "/ready says that a replica can serve",
        _observe_ready,
        judge_status,
    ),
    Check(
        "metrics",
        Group.OPERATION,
        "The metrics page shows load, cache and output",
        _observe_counters,
        judge_families,
    ),
)
