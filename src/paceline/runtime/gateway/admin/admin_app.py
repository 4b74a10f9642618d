"""The ASGI application of the admin port: metrics, governors, drafts, replicas, the live view.

Without a key it must stay on loopback. The checks of the Host header and of the JSON content type
stop web pages in a browser on the same machine (DNS rebinding, cross-origin requests). A key has a
role; every change is written to the audit log, also one that was refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from paceline.runtime.gateway.admin.audit import AuditEntry, AuditLog, name_in_audit
from paceline.runtime.gateway.admin.capture_admin import delete_capture, describe_capture
from paceline.runtime.gateway.admin.change_gate import ChangeGate
from paceline.runtime.gateway.admin.draft_admin import (
    DRAFT_FIELDS,
    begin_swap,
    refuse_restart_during_swap,
)
from paceline.runtime.gateway.admin.draft_swaps import DraftSwaps
from paceline.runtime.gateway.admin.engine_restarts import EngineRestarts
from paceline.runtime.gateway.admin.governor_change_check import (
    GOVERNOR_FIELDS,
    check_governor_change,
    without_parameters,
)
from paceline.runtime.gateway.admin.governor_changes import GovernorChanges
from paceline.runtime.gateway.admin.governor_control import ControlAnswer, send_to_governors
from paceline.runtime.gateway.admin.recording_commands import RECORDING_FIELDS, recording_command
from paceline.runtime.gateway.admin.replica_admin import (
    CHANGE_FIELDS,
    ENTRY_FIELDS,
    add_replica,
    check_entry,
    check_replica_change,
    describe_fleet,
    drain_replica,
    is_replica_or_entry,
    remove_replica,
    restart_replica,
)
from paceline.runtime.gateway.fleet import Fleet
from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body, send_json
from paceline.runtime.gateway.http.body import ClientGone, check_headers, read_body
from paceline.runtime.gateway.http.errors import (
    Problem,
    Refusal,
    invalid,
    listed,
    method_not_allowed,
    not_found,
    unavailable,
)
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.keys.access import AdminAccess, Operator
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.live_view.live_view import LiveView
from paceline.runtime.gateway.live_view.routes import DASHBOARD_PATHS, DashboardRoutes
from paceline.runtime.gateway.metrics.metrics import CONTENT_TYPE, GatewayMetrics
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.proxy.lease import Traffic
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.field_checks import with_whole_numbers
from paceline.runtime.gateway.settings import GatewaySettings

_READ = {"GET": Role.READ, "HEAD": Role.READ}
_METHODS: Mapping[str, Mapping[str, Role]] = {
    "/metrics": _READ,
    "/admin/governor": {**_READ, "PATCH": Role.OPERATE},
    "/admin/draft": {**_READ, "POST": Role.ADMIN},
    "/admin/recording": {**_READ, "POST": Role.OPERATE, "DELETE": Role.OPERATE},
    "/admin/capture": {**_READ, "DELETE": Role.OPERATE},
    "/admin/replicas": {
        **_READ, "POST": Role.ADMIN, "PATCH": Role.OPERATE, "DELETE": Role.ADMIN,
    },
}  # fmt: skip
"""By path and method, the role that the request needs."""
_FIELDS: Mapping[tuple[str, str], Sequence[str]] = {
    ("/admin/governor", "PATCH"): GOVERNOR_FIELDS,
    ("/admin/draft", "POST"): DRAFT_FIELDS,
    ("/admin/recording", "POST"): RECORDING_FIELDS,
    ("/admin/replicas", "POST"): ENTRY_FIELDS,
    ("/admin/replicas", "PATCH"): CHANGE_FIELDS,
}
"""By path and method, the fields of the body."""


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
        restarts: EngineRestarts,
        swaps: DraftSwaps,
        gate: ChangeGate,
        live: LiveView,
    ) -> None:
        """`fetch_worker_samples` returns the metrics of the worker processes."""
        self._restarts = restarts
        self._swaps = swaps
        self._gate = gate
        self._settings = settings
        self._fleet = fleet
        self._traffic = traffic
        self._metrics = metrics
        self._changes = changes
        self._fetch_worker_samples = fetch_worker_samples
        self._access = AdminAccess(settings)
        self._dashboard = DashboardRoutes(live, self._access)
        self._audit = AuditLog(settings.keys.audit_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        entry = AuditEntry.begin(scope, {*_METHODS, *DASHBOARD_PATHS}, self._is_replica)
        try:
            await self._dispatch(scope, receive, send, entry)
        except ClientGone:
            entry.error = "client_gone"
        except Refusal as refusal:
            problem = refusal.problem
            entry.status, entry.error = problem.status, problem.code
            await send_body(send, problem.status, problem.body(), headers=problem.headers())
        finally:
            if entry.method not in _READ:
                self._audit.write(entry)

    async def _dispatch(
        self, scope: Scope, receive: Receive, send: Send, entry: AuditEntry
    ) -> None:
        path, method = scope["path"], scope["method"]
        if self._dashboard.serves(path):
            visit = await self._dashboard.answer(scope, receive, send)
            entry.status, entry.error = visit.status, visit.error
            if visit.operator is not None:
                entry.set_operator(visit.operator)
            return
        operator = self._access.authenticate(scope)
        entry.set_operator(operator)
        self._access.check_host(scope, operator)
        methods = _METHODS.get(path)
        if methods is None:
            raise Refusal(not_found(path))
        if method not in methods:
            raise Refusal(method_not_allowed(method, path, ", ".join(methods)))
        if not operator.role.includes(methods[method]):
            raise Refusal(_role_missing(operator, method, path, methods[method]))
        if path == "/metrics":
            await self._send_metrics(send)
        elif path == "/admin/replicas":
            await self._answer_replicas(scope, receive, send, entry)
        elif path == "/admin/draft":
            await self._answer_draft(scope, receive, send, entry)
        elif path == "/admin/recording":
            await self._answer_recording(scope, receive, send, entry)
        elif path == "/admin/capture":
            await self._answer_capture(method, send, entry)
        elif method == "PATCH":
            change = check_governor_change(await self._read(scope, receive, entry))
            entry.set_change(without_parameters(change))

            def accepted(replica: str) -> None:
                entry.set_change(change)  # an engine has checked the parameters
                self._changes.note(replica, change)

            with self._gate.change():
                answers = await self._command_engines(
                    scope, {"op": "set", **change}, "governor_refused", accepted
                )
            entry.status = 200
            await send_json(send, 200, {"replicas": _by_name(answers)})
        else:
            answers = await self._ask_engines(scope, {"op": "state"})
            await send_json(send, 200, {"replicas": _by_name(answers)})

    async def _answer_draft(
        self, scope: Scope, receive: Receive, send: Send, entry: AuditEntry
    ) -> None:
        if scope["method"] in _READ:
            await send_json(send, 200, self._swaps.describe())
            return
        request = await self._read(scope, receive, entry)
        content = await begin_swap(self._swaps, self._gate, request, entry.set_change)
        entry.status = 202
        await send_json(send, 202, content)

    async def _answer_recording(
        self, scope: Scope, receive: Receive, send: Send, entry: AuditEntry
    ) -> None:
        method = scope["method"]
        if method in _READ:
            answers = await self._ask_engines(scope, {"op": "record", "action": "status"})
        else:
            body = await self._read(scope, receive, entry) if method == "POST" else None
            command = recording_command(body)
            if body is not None:
                entry.set_change(body)
            with self._gate.change():
                answers = await self._command_engines(scope, command, "recording_refused")
            entry.status = 200
        await send_json(send, 200, {"replicas": _by_name(answers)})

    async def _answer_capture(self, method: str, send: Send, entry: AuditEntry) -> None:
        settings = self._settings.capture
        if method in _READ:
            content = await describe_capture(settings)
        else:
            with self._gate.change():
                content = await delete_capture(settings)
            entry.status = 200
        await send_json(send, 200, content)

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

    async def _ask_engines(
        self, scope: Scope, request: Mapping[str, object]
    ) -> Sequence[ControlAnswer]:
        replicas = _selected(self._fleet.replicas(), scope)
        return await send_to_governors(replicas, request, self._settings.control_timeout_s)

    async def _command_engines(
        self,
        scope: Scope,
        command: Mapping[str, object],
        refusal_code: str,
        on_success: Callable[[str], None] = lambda replica: None,
    ) -> Sequence[ControlAnswer]:
        """Send a command to the selected engines; `Refusal` unless all have carried it out.

        `on_success` is called with the name of each that has.
        """
        replicas = _selected(self._fleet.replicas(), scope)
        # Without ?replica=, a command is for all replicas with a governor; remote ones have none.
        governed = [replica for replica in replicas if replica.control_socket is not None]
        answers = await send_to_governors(
            governed or replicas, command, self._settings.control_timeout_s
        )
        for answer in answers:
            if answer.error is None:
                on_success(answer.replica)
        failed = [answer for answer in answers if answer.error is not None]
        if failed or not answers:
            reasons = "; ".join(f"{answer.replica}: {answer.error}" for answer in failed)
            changed = [answer.replica for answer in answers if answer.error is None]
            message = (
                f"{reasons or 'There is no replica'}. Changed: {', '.join(changed) or 'none'}."
            )
            if any(answer.is_refusal for answer in failed):
                raise invalid(message, code=refusal_code)
            raise Refusal(unavailable(message, self._settings.retry_after_s))
        return answers

    async def _answer_replicas(
        self, scope: Scope, receive: Receive, send: Send, entry: AuditEntry
    ) -> None:
        if scope["method"] in _READ:
            status, content = 200, describe_fleet(self._fleet, self._traffic.num_in_flight)
        else:
            has_body = scope["method"] != "DELETE"
            request = await self._read(scope, receive, entry) if has_body else {}
            change = self._check_replicas(scope, request, entry)
            with self._gate.change():
                status, content = change()
        entry.status = status
        await send_json(send, status, content)

    def _check_replicas(
        self, scope: Scope, request: Mapping[str, Any], entry: AuditEntry
    ) -> Callable[[], tuple[int, dict[str, object]]]:
        """Check a change of the replicas; returns what carries it out."""
        num_in_flight = self._traffic.num_in_flight
        if scope["method"] == "POST":
            added = check_entry(request)
            entry.set_change({name: getattr(added, name) for name in request})
            return lambda: (201, add_replica(self._fleet, added))
        if scope["method"] == "DELETE":
            names = parse_qs(bytes(scope["query_string"]).decode("latin-1")).get("name", [])
            return lambda: (200, remove_replica(self._fleet, names, num_in_flight))
        check_replica_change(request)
        name = request["name"]
        entry.set_change({**request, "name": name_in_audit(name, self._is_replica)})
        if "restart" in request:
            refuse_restart_during_swap(self._swaps)
            return lambda: (
                202,
                restart_replica(self._fleet, name, self._restarts, num_in_flight),
            )
        return lambda: (
            200,
            drain_replica(self._fleet, name, request["draining"], num_in_flight),
        )

    def _is_replica(self, name: str) -> bool:
        return is_replica_or_entry(self._fleet, name)

    async def _read(self, scope: Scope, receive: Receive, entry: AuditEntry) -> dict[str, Any]:
        check_headers(scope, self._settings)
        body = await read_body(receive, self._settings)
        parsed = parse_object(body.data, self._settings.json_limits, body.num_keys)
        entry.note_fields(parsed, _FIELDS[scope["path"], scope["method"]])
        return {name: with_whole_numbers(value) for name, value in parsed.items()}


def _role_missing(operator: Operator, method: str, path: str, needed: Role) -> Problem:
    return Problem(
        403,
        f"The key has the role {operator.role}; {method} {path} needs {needed}. Create a key with "
        f"paceline keys create --admin --role {needed}.",
        "role_missing",
        closes_connection=True,
    )


def _selected(replicas: Sequence[Replica], scope: Scope) -> Sequence[Replica]:
    """The replica named by ?replica=, or all replicas."""
    names = parse_qs(bytes(scope["query_string"]).decode("latin-1")).get("replica")
    if not names:
        return replicas
    chosen = [replica for replica in replicas if replica.name == names[0]]
    if not chosen:
        known = listed([replica.name for replica in replicas]) or "none"
        raise Refusal(
            Problem(
                404,
                f"There is no replica {names[0][:100]!a}; known replicas: {known}.",
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
