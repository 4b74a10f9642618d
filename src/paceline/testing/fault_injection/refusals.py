"""Faults of refusals, keys and open routes."""

from __future__ import annotations

import json
from dataclasses import replace

from paceline.testing.fault_injection.fault import Call, Fault, Reply

_JSON = {"content-type": "application/json"}


def _as_500(call: Call, reply: Reply) -> Reply:
    return replace(reply, status=500) if call.generates and reply.status == 400 else reply


def _without_message(call: Call, reply: Reply) -> Reply:
    is_refusal = call.generates and reply.status == 400
    return replace(reply, body=b'{"detail": "no"}') if is_refusal else reply


def _with_trace(call: Call, reply: Reply) -> Reply:
    if reply.status < 400 or not call.generates:
        return reply
    text = 'Traceback (most recent call last):\n  File "/srv/app/server.py", line 7'
    return replace(reply, body=json.dumps({"error": {"message": text}}).encode())


def _repair(call: Call) -> Call | Reply:
    """Every request is answered as if it were a short sound one."""
    sound = {"model": call.known_model, "prompt": "a", "max_tokens": 1}
    return call.with_fields(sound) if call.generates else call


def _any_model(call: Call) -> Call | Reply:
    fields = call.fields() if call.generates else None
    if fields is None:
        return call
    return call.with_fields({**fields, "model": call.known_model})


def _clip(call: Call) -> Call | Reply:
    """Prompts and answers beyond the context are cut."""
    fields = call.fields() if call.generates else None
    if fields is None:
        return call
    if isinstance(fields.get("prompt"), list):
        fields["prompt"] = fields["prompt"][:16]
    fields["max_tokens"] = min(64, fields.get("max_tokens", 16))
    return call.with_fields(fields)


def _route_error(call: Call, reply: Reply) -> Reply:
    return replace(reply, status=500) if reply.status in (404, 405) else reply


def _lend_key(call: Call) -> Call | Reply:
    """Every request gets a key that the deployment accepts."""
    if call.known_key is None:
        return call
    return replace(call, headers={**call.headers, "authorization": call.known_key})


def _open(path: str, status: int) -> Fault:
    def on_call(call: Call) -> Call | Reply:
        return Reply(status, _JSON, b"{}") if call.path == path and not call.is_admin else call

    name = path.strip("/").replace("/", "-").replace("_", "-")
    return Fault(
        f"open-{name}",
        "closed-routes",
        f"The data port serves {path}.",
        f"serves {path};",
        on_call=on_call,
    )


FAULTS = (
    Fault(
        "refusal-500",
        "malformed-requests",
        "Malformed requests get status 500.",
        "gets status 500, expected a 4xx",
        on_reply=_as_500,
    ),
    Fault(
        "refusal-without-message",
        "malformed-requests",
        "Errors have no message.",
        "an error without a message",
        on_reply=_without_message,
    ),
    Fault(
        "malformed-answered",
        "malformed-requests",
        "Malformed requests are answered.",
        "gets status 200, expected a 4xx",
        on_call=_repair,
    ),
    Fault(
        "error-trace",
        "error-disclosure",
        "Errors show a stack trace.",
        "shows 'Traceback",
        on_reply=_with_trace,
    ),
    Fault(
        "any-model",
        "unknown-model",
        "The name of the model is ignored.",
        "an unknown model gets status 200",
        on_call=_any_model,
    ),
    Fault(
        "context-clipped",
        "context-limit",
        "Prompts beyond the context are cut.",
        "max_tokens beyond the context gets status 200",
        on_call=_clip,
    ),
    Fault(
        "route-500",
        "unknown-routes",
        "Unknown routes get status 500.",
        "an unknown route gets status 500",
        on_reply=_route_error,
    ),
    Fault(
        "keys-ignored",
        "api-keys",
        "Requests without a valid key are answered.",
        "a request with no key gets status 200",
        on_call=_lend_key,
    ),
    _open("/reset_prefix_cache", 405),
    _open("/admin/replicas", 200),
)
