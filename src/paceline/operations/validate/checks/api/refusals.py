"""Requests that must be refused: malformed ones, unknown models and routes, too long contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.target.target import COMPLETIONS
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_BODIES: Mapping[str, Mapping[str, Any] | bytes] = {
    "a body that is no JSON": b'{"prompt": "a", ',
    "a body that is a list": b"[]",
    "no prompt": {},
    "a prompt that is a number": {"prompt": 7},
    "max_tokens as a text": {"prompt": "a", "max_tokens": "many"},
    "max_tokens below 0": {"prompt": "a", "max_tokens": -1},
    "temperature below 0": {"prompt": "a", "temperature": -1},
    "top_p above 1": {"prompt": "a", "top_p": 2},
    "n of 0": {"prompt": "a", "n": 0},
    "stream_options without a stream": {
        "prompt": "a", "stream_options": {"include_usage": True},
    },
}  # fmt: skip
_REVEALING = (b"Traceback (most recent call last)", b'File "/', b"site-packages", b"/home/")
_SHORT = {"prompt": "a", "max_tokens": 1}


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that must be refused, and its reply."""

    name: str
    reply: Reply


async def _observe_malformed(deployment: Deployment) -> list[Refused]:
    async def observe() -> list[Refused]:
        target, found = deployment.target, []
        for name, body in _BODIES.items():
            if isinstance(body, Mapping):
                body = {"model": target.identity.model, **body}
            found.append(Refused(name, await target.request("POST", COMPLETIONS, body)))
        after = await target.complete(**_SHORT)
        return [*found, Refused("", after)]

    return await deployment.once("malformed requests", observe)


def judge_malformed(observed: list[Refused], tier: Tier) -> Judgement:
    """Each gets a 4xx with an error object, and the server answers the next request."""
    *refused, after = observed
    for one in refused:
        _expect_refusal(one.name, one.reply)
    after.reply.expect_ok()
    return passed(f"{len(refused)} malformed requests get a 4xx with an error object")


def judge_disclosure(observed: list[Refused], tier: Tier) -> Judgement:
    """No error shows a stack trace or a path of the server."""
    for one in observed:
        for mark in _REVEALING:
            if mark in one.reply.body:
                raise Violation(f"the error for {one.name} shows {mark.decode()!r}")
    return passed(f"{len(observed) - 1} errors show no stack trace and no path")


async def _observe_model(deployment: Deployment) -> Reply:
    body = {**_SHORT, "model": "paceline-validate/no-such-model"}
    return await deployment.target.request("POST", COMPLETIONS, body)


def judge_model(reply: Reply, tier: Tier) -> Judgement:
    """404, or another 4xx, with an error object."""
    _expect_refusal("an unknown model", reply)
    return passed(f"an unknown model gets status {reply.status}", status=reply.status)


async def _observe_context(deployment: Deployment) -> list[Refused]:
    target = deployment.target
    longest = target.identity.max_model_len
    if longest is None:
        raise Missing("the server does not list max_model_len, so its limit is not known")
    too_many = await target.complete(prompt="a", max_tokens=longest + 1)
    too_long = await target.complete(prompt=[1] * (longest + 1), max_tokens=1)
    after = await target.complete(**_SHORT)
    return [Refused("max_tokens beyond the context", too_many),
            Refused("a prompt beyond the context", too_long), Refused("", after)]  # fmt: skip


def judge_context(observed: list[Refused], tier: Tier) -> Judgement:
    """Both get a 4xx, and the server answers the next request."""
    *refused, after = observed
    for one in refused:
        _expect_refusal(one.name, one.reply)
    after.reply.expect_ok()
    return passed("prompts and answers beyond the context are refused")


async def _observe_routes(deployment: Deployment) -> list[Refused]:
    target = deployment.target
    return [
        Refused("an unknown route", await target.request("POST", "/v1/no-such-route", {})),
        Refused("GET of completions", await target.request("GET", COMPLETIONS)),
    ]


def judge_routes(observed: list[Refused], tier: Tier) -> Judgement:
    """404 or 405."""
    for one in observed:
        if one.reply.status not in (404, 405):
            raise Violation(f"{one.name} gets status {one.reply.status}, expected 404 or 405")
    return passed("unknown routes and methods get 404 or 405")


def _expect_refusal(name: str, reply: Reply) -> None:
    if not 400 <= reply.status < 500:
        raise Violation(f"{name} gets status {reply.status}, expected a 4xx: {reply.text}")
    error = reply.document().get("error")
    message = error.get("message") if isinstance(error, dict) else error
    if not isinstance(message, str) or not message:
        raise Violation(f"{name} gets an error without a message: {reply.text}")


CHECKS = (
    Check(
        "malformed-requests",
        Group.API,
        "Malformed requests get a 4xx with an error object and do no harm",
        _observe_malformed,
        judge_malformed,
    ),
    Check(
        "unknown-model",
        Group.API,
        "A request for an unknown model is refused",
        _observe_model,
        judge_model,
    ),
    Check(
        "context-limit",
        Group.API,
        "Requests beyond the context are refused",
        _observe_context,
        judge_context,
    ),
    Check(
        "unknown-routes",
        Group.API,
        "Unknown routes and methods are refused",
        _observe_routes,
        judge_routes,
    ),
    Check(
        "error-disclosure",
        Group.SECURITY,
        "Errors show no stack trace and no path of the server",
        _observe_malformed,
        judge_disclosure,
    ),
)
