"""A replica can be drained through the admin port without a failed request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment, finish, together
from paceline.operations.validate.target.exchange import Reply, Stream
from paceline.operations.validate.target.target import COMPLETIONS, Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_PATH = "/admin/replicas"
_NUM_REQUESTS = 6
_TOKENS = 12
_NUM_STREAMS = 8
"""Enough that a replica that is not drained takes one of them."""
_STREAM_TOKENS = 4_000
"""Far more than is read: the streams run until they are closed."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Drained:
    """A replica while it was drained, and after it was returned to service."""

    name: str
    drained: Mapping[str, Any]
    replies: Sequence[Reply | Stream]
    """To requests sent while it was drained."""
    restored: Mapping[str, Any]


async def _observe(deployment: Deployment) -> Drained:
    target = deployment.target
    if target.addresses.admin_url is None:
        raise Missing("draining needs Paceline's admin port; give --admin-url")
    if not deployment.allows_drain:
        raise Missing("draining changes the deployment for a moment; give --drain to allow it")
    ready = [one for one in await _replicas(target) if one.get("state") == "ready"]
    if len(ready) < 2 or len({one.get("model") for one in ready}) > 1:
        raise Missing(
            f"{len(ready)} replicas of one model are ready; draining without an interruption "
            "needs two"
        )
    name = str(ready[0]["name"])
    try:
        await _set_draining(target, name, True)
        drained = await target.wait_for(
            lambda: _replica(target, name),
            lambda one: one.get("draining") is True and one.get("in_flight") == 0,
        )
        if drained.get("draining") is True and drained.get("in_flight") != 0:
            raise Missing(
                f"{drained.get('in_flight')} requests still run on {name} {target.settle_s:g} s "
                "after it was drained, so it does not show whether it takes more"
            )
        most_in_flight, streams = await _send_streams(target, name)
        asked = [
            target.complete(prompt=PROMPTS[0], max_tokens=_TOKENS, temperature=0)
            for _ in range(_NUM_REQUESTS)
        ]
        replies: list[Reply | Stream] = [*streams, *await together(asked)]
    finally:
        await finish(_set_draining(target, name, False))
    restored = await target.wait_for(
        lambda: _replica(target, name), lambda one: one.get("state") == "ready"
    )
    return Drained(name, {**drained, "in_flight": most_in_flight}, replies, restored)


async def _send_streams(target: Target, name: str) -> tuple[int, list[Stream]]:
    """The most requests in flight at the drained replica while streams run, and the streams.

    Each stream is held after its first event, so that all are in flight at once.
    """
    release, num_held, num_ended = asyncio.Event(), 0, 0
    num_tokens = min(_STREAM_TOKENS, (target.identity.max_model_len or _STREAM_TOKENS) // 2)

    async def hold() -> None:
        nonlocal num_held
        num_held += 1
        await release.wait()

    async def send(number: int) -> Stream:
        nonlocal num_ended
        try:
            return await target.stream(
                COMPLETIONS, max_events=1, release=hold,
                prompt=f"# Request {number}\n{PROMPTS[number % len(PROMPTS)]}",
                max_tokens=num_tokens, min_tokens=num_tokens, temperature=0,
            )  # fmt: skip
        finally:
            num_ended += 1

    async def watch() -> int:
        most = 0
        try:
            while num_held + num_ended < _NUM_STREAMS:
                most = max(most, await _num_in_flight(target, name))
                await asyncio.sleep(_POLL_S)
            return max(most, await _num_in_flight(target, name))
        finally:
            release.set()

    watching = asyncio.create_task(watch())
    try:
        streams = await together([send(number) for number in range(_NUM_STREAMS)])
        return await watching, streams
    finally:
        watching.cancel()


async def _num_in_flight(target: Target, name: str) -> int:
    found = (await _replica(target, name)).get("in_flight")
    if type(found) is not int:
        raise Violation(f"{_PATH} shows in_flight {found!r} for {name}, expected a number")
    return found


def judge(observed: Drained, tier: Tier) -> Judgement:
    """The replica shows as draining, no request fails meanwhile, and it serves again."""
    name = observed.name
    if observed.drained.get("draining") is not True:
        raise Violation(f"{name} does not drain: it is {observed.drained.get('state')!r}")
    if observed.drained.get("in_flight") != 0:
        raise Violation(f"{name} takes requests while it is drained")
    for reply in observed.replies:
        reply.expect_ok()
    if observed.restored.get("state") != "ready":
        raise Violation(
            f"{name} does not return to service: it is {observed.restored.get('state')!r}"
        )
    return passed(f"{name} was drained and returned; {len(observed.replies)} requests were served")


async def _replicas(target: Target) -> list[dict[str, Any]]:
    reply = await _admin(target, "GET", None)
    found = reply.expect_ok().document().get("replicas")
    if not isinstance(found, list):
        raise Violation(f"{_PATH} lists no replicas: {reply.text}")
    return found


async def _replica(target: Target, name: str) -> dict[str, Any]:
    for one in await _replicas(target):
        if one.get("name") == name:
            return one
    raise Violation(f"{_PATH} does not list {name} any more")


async def _set_draining(target: Target, name: str, draining: bool) -> None:
    (await _admin(target, "PATCH", {"name": name, "draining": draining})).expect_ok()


async def _admin(target: Target, method: str, body: Mapping[str, Any] | None) -> Reply:
    addresses = target.addresses
    return await target.request(
        method, _PATH, body, base=addresses.admin_url, key=addresses.admin_key, sends_key=False
    )


CHECKS = (
    Check(
        "draining",
        Group.OPERATION,
        "A replica is drained and returned without a failed request",
        _observe,
        judge,
    ),
)
