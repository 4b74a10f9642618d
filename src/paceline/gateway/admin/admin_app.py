"""The ASGI application of the admin port: metrics, governors and replicas.

Without a key it must stay on loopback. The checks of the Host header and of the JSON content type
stop web pages in a browser on the same machine (DNS rebinding, cross-origin requests).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from paceline.gateway.admin.governor_change_check import check_governor_change
from paceline.gateway.admin.governor_changes import GovernorChanges
from paceline.gateway.admin.governor_control import ControlAnswer, send_to_governors
from paceline.gateway.admin.replica_admin import (
    add_replica,
    describe_fleet,
    drain_replica,
    remove_replica,
)
from paceline.gateway.fleet import Fleet
from paceline.gateway.http.asgi import Receive, Scope, Send, header, send_body, send_json
from paceline.gateway.http.body import ClientGone, check_headers, read_body
from paceline.gateway.http.errors import (
    Problem,
    Refusal,
    invalid,
    method_not_allowed,
    not_found,
    unavailable,
)
from paceline.gateway.http.strict_json import parse_object
from paceline.gateway.keys.access import AdminAccess
from paceline.gateway.metrics.metrics import CONTENT_TYPE, GatewayMetrics
from paceline.gateway.metrics.samples import FamilyOfSamples
from paceline.gateway.proxy.lease import Traffic
from paceline.gateway.replicas import Replica
from paceline.gateway.settings import GatewaySettings

_METHODS = {
    "/metrics": ("GET", "HEAD"),
    "/admin/governor": ("GET", "HEAD", "PATCH"),
    "/admin/replicas": ("GET", "HEAD", "POST", "PATCH", "DELETE"),
}


class AdminApp:
    """The admin port."""

    def __init__(
        self,
        settings: GatewaySettings,
        fleet: Fleet,
        traffic: Traffic,
        metrics: GatewayMetrics,
        changes: GovernorChanges,
        fetch_worker_samples: Callable[[], Awaitable[Sequence[FamilyOfSamples]]],
    ) -> None:
        """`fetch_worker_samples` returns the metrics of the worker processes."""
        self._settings = settings
        self._fleet = fleet
        self._traffic = traffic
        self._metrics = metrics
        self._changes = changes
        self._fetch_worker_samples = fetch_worker_samples
        self._access = AdminAccess(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._dispatch(scope, receive, send)
        except ClientGone:
            return
        except Refusal as refusal:
            problem = refusal.problem
            await send_body(send, problem.status, problem.body(), headers=problem.headers())

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        is_authenticated = self._access.authenticate(scope)
        if not is_authenticated and not _is_trusted_host(
            header(scope, b"host"), self._settings.admin_host
        ):
            raise Refusal(
                Problem(
                    403,
                    "The Host header must name localhost, an IP address or the configured "
                    "server.admin_host.",
                    "host_not_allowed",
                )
            )
        methods = _METHODS.get(path)
        if methods is None:
            raise Refusal(not_found(path))
        if method not in methods:
            raise Refusal(method_not_allowed(method, path, ", ".join(methods)))
        if path == "/metrics":
            await self._send_metrics(send)
        elif path == "/admin/replicas":
            await self._answer_replicas(scope, receive, send)
        elif method == "PATCH":
            await self._set_governor(scope, receive, send)
        else:
            replicas = _selected(self._fleet.replicas(), scope)
            answers = await send_to_governors(
                replicas, {"op": "state"}, self._settings.control_timeout_s
            )
            await send_json(send, 200, {"replicas": _by_name(answers)})

    async def _send_metrics(self, send: Send) -> None:
        replicas = self._fleet.replicas()
        answers = await send_to_governors(
            replicas, {"op": "state"}, self._settings.control_timeout_s
        )
        of_workers = await self._fetch_worker_samples()
        states = {answer.replica: answer.state for answer in answers if answer.state is not None}
        in_flight = {r.name: self._traffic.num_in_flight(r.name) for r in replicas}
        self._metrics.set_breaker_states(self._traffic.breaker_states())
        loads = self._fleet.loads()
        text = self._metrics.render(replicas, in_flight, states, loads, of_workers)
        await send_body(send, 200, text, content_type=CONTENT_TYPE)

    async def _set_governor(self, scope: Scope, receive: Receive, send: Send) -> None:
        change = check_governor_change(await self._read(scope, receive))
        replicas = _selected(self._fleet.replicas(), scope)
        # Without ?replica=, a change is for all replicas with a governor; remote ones have none.
        governed = [replica for replica in replicas if replica.control_socket is not None]
        answers = await send_to_governors(
            governed or replicas, {"op": "set", **change}, self._settings.control_timeout_s
        )
        for answer in answers:
            if answer.error is None:
                self._changes.note(answer.replica, change)
        failed = [answer for answer in answers if answer.error is not None]
        if failed or not answers:
            reasons = "; ".join(f"{answer.replica}: {answer.error}" for answer in failed)
            changed = [answer.replica for answer in answers if answer.error is None]
            message = (
                f"{reasons or 'There is no replica'}. Changed: {', '.join(changed) or 'none'}."
            )
            if any(answer.is_refusal for answer in failed):
                raise invalid(message, code="governor_refused")
            raise Refusal(unavailable(message, self._settings.retry_after_s))
        await send_json(send, 200, {"replicas": _by_name(answers)})

    async def _answer_replicas(self, scope: Scope, receive: Receive, send: Send) -> None:
        num_in_flight = self._traffic.num_in_flight
        status = 200
        if scope["method"] == "POST":
            status, content = 201, add_replica(self._fleet, await self._read(scope, receive))
        elif scope["method"] == "PATCH":
            request = await self._read(scope, receive)
            content = drain_replica(self._fleet, request, num_in_flight)
        elif scope["method"] == "DELETE":
            names = parse_qs(bytes(scope["query_string"]).decode("latin-1")).get("name", [])
            content = remove_replica(self._fleet, names, num_in_flight)
        else:
            content = describe_fleet(self._fleet, num_in_flight)
        await send_json(send, status, content)

    async def _read(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        check_headers(scope, self._settings)
        body = await read_body(receive, self._settings)
        return parse_object(body, self._settings.max_json_depth, self._settings.max_json_keys)


def _selected(replicas: Sequence[Replica], scope: Scope) -> Sequence[Replica]:
    """The replica named by ?replica=, or all replicas."""
    names = parse_qs(bytes(scope["query_string"]).decode("latin-1")).get("replica")
    if not names:
        return replicas
    chosen = [replica for replica in replicas if replica.name == names[0]]
    if not chosen:
        known = ", ".join(replica.name for replica in replicas) or "none"
        raise Refusal(
            Problem(
                404,
                f"There is no replica {names[0][:100]!r}; known replicas: {known}.",
                "replica_not_found",
                "replica",
            )
        )
    return chosen


def _by_name(answers: Sequence[ControlAnswer]) -> dict[str, object]:
    return {
        answer.replica: answer.state if answer.state is not None else {"error": answer.error}
        for answer in answers
    }


def _is_trusted_host(host: str | None, admin_host: str) -> bool:
    """Whether the Host header is safe. In a DNS rebinding attack it holds the attacker's name."""
    if host is None:
        return False
    name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() in ("localhost", admin_host.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
