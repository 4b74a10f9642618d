"""Keys are required, and no route is open that changes or reveals the server."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.target.target import COMPLETIONS
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, failed, passed

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CLOSED_ROUTES = (
    "/reset_prefix_cache",
    "/sleep",
    "/wake_up",
    "/collective_rpc",
    "/server_info",
    "/start_profile",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/update_weights",
    "/pause",
    "/resume",
    "/abort_requests",
    "/init_weight_transfer_engine",
    "/admin/governor",
    "/admin/replicas",
)
"""Routes of vLLM's development mode, of adapters loaded at run time and of administration.

Not `/scale_elastic_ep`: every vLLM that generates text serves it, whatever its options."""
_ABSENT = (404, 401, 403)


async def _observe_keys(deployment: Deployment) -> Mapping[str, Reply]:
    """The replies without a key and with a wrong one."""
    target = deployment.target
    if target.addresses.api_key is None and target.addresses.url.host in _LOOPBACK:
        raise Missing("--api-key is not given, and the server listens on loopback only")
    body = {"model": target.identity.model, "prompt": "a", "max_tokens": 1}
    return {
        "no key": await target.request("POST", COMPLETIONS, body, sends_key=False),
        "a wrong key": await target.request("POST", COMPLETIONS, body, key="not-a-key"),
        "no key, at /v1/models": await target.request("GET", "/v1/models", sends_key=False),
    }


def judge_keys(replies: Mapping[str, Reply], tier: Tier) -> Judgement:
    """Requests without a valid key get 401 or 403."""
    for name, reply in replies.items():
        if reply.status not in (401, 403):
            return failed(f"a request with {name} gets status {reply.status}, expected 401")
    return passed("requests without a valid key are refused")


async def _observe_routes(deployment: Deployment) -> Mapping[str, Reply]:
    """GET changes nothing: a POST route answers it with 405."""
    target = deployment.target
    return {path: await target.request("GET", path) for path in _CLOSED_ROUTES}


def judge_routes(replies: Mapping[str, Reply], tier: Tier) -> Judgement:
    """None of the routes exists on the data port."""
    found = [path for path, reply in replies.items() if reply.status not in _ABSENT]
    if found:
        raise Violation(f"the data port serves {', '.join(found)}; clients must not reach them")
    return passed(f"none of {len(replies)} routes of administration or development is served")


CHECKS = (
    Check(
        "api-keys",
        Group.SECURITY,
        "A request without a valid key is refused",
        _observe_keys,
        judge_keys,
    ),
    Check(
        "closed-routes",
        Group.SECURITY,
        "The data port serves no administration and no development routes",
        _observe_routes,
        judge_routes,
    ),
)
