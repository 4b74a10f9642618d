"""Faults of health, metrics, cancellation, caching, crowds and draining."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from paceline.testing.fault_injection.fault import Call, Fault, Reply, edit_call

_JSON = {"content-type": "application/json"}
# In vLLM's dialect and in Paceline's. Written out: the faults share no code with the checks.
_REQUESTS = r"vllm:request_success_total|paceline_requests_total"
_OUTPUT = r"vllm:generation_tokens_total|paceline_output_tokens_total"
_PROMPT = r"vllm:prompt_tokens_total|paceline_prompt_tokens_total"
_KV = r"vllm:kv_cache_usage_perc|paceline_replica_load_kv_usage_fraction"
_RUNNING = r"vllm:num_requests_running|paceline_replica_load_requests_running"
_ACCEPTED = r"vllm:spec_decode_num_accepted_tokens_total|paceline_governor_accepted_tokens_total"
_MOST_OPEN = 4


def _answer(path: str, status: int) -> Callable[[Call], Call | Reply]:
    body = b'{"error": {"message": "down"}}'
    return lambda call: Reply(status, _JSON, body) if call.path == path else call


def _edit_page(edit: Callable[[Call, str], str]) -> Callable[[Call, Reply], Reply]:
    def on_reply(call: Call, reply: Reply) -> Reply:
        if call.path != "/metrics" or reply.status != 200:
            return reply
        return replace(reply, body=edit(call, reply.body.decode()).encode())

    return on_reply


def _scale(names: str, factor: float) -> Callable[[Call, Reply], Reply]:
    """Multiply the samples of these families."""

    def edit(call: Call, page: str) -> str:
        return re.sub(
            rf"^((?:{names})(?:\{{[^\n]*\}})?) (\S+)$",
            lambda found: f"{found[1]} {float(found[2]) * factor}",
            page,
            flags=re.MULTILINE,
        )

    return _edit_page(edit)


def _remove(names: str) -> Callable[[Call, Reply], Reply]:
    return _edit_page(
        lambda call, page: re.sub(rf"^(?:{names})[ {{][^\n]*\n", "", page, flags=re.MULTILINE)
    )


def _leak(call: Call, page: str) -> str:
    """Of the KV cache, 2 % more is in use for every client that has disconnected."""
    leak = 0.02 * call.memory.get("num_disconnected", 0)
    return re.sub(
        rf"^((?:{_KV})(?:\{{[^\n]*\}})?) (\S+)$",
        lambda found: f"{found[1]} {float(found[2]) + leak}",
        page,
        flags=re.MULTILINE,
    )


def _salt(fields: dict[str, Any]) -> None:
    """No two prompts begin with the same tokens."""
    if isinstance(fields.get("prompt"), str):
        fields["prompt"] = f"{uuid.uuid4()} {fields['prompt']}"


def _mix_up(call: Call, reply: Reply) -> Reply:
    """Every second answer with an echo has the choices of the one before."""
    fields, document = call.fields() or {}, reply.document()
    if not fields.get("echo") or document is None or reply.status != 200:
        return reply
    before = call.memory.get("choices")
    call.memory["choices"] = document["choices"]
    if before is None:
        return reply
    return replace(reply, body=json.dumps({**document, "choices": before}).encode())


def _crash_in_crowd(status: int) -> Callable[[Call], Call | Reply]:
    body = b'{"error": {"message": "overloaded"}}'
    return lambda call: (
        Reply(status, _JSON, body) if call.generates and call.num_open > _MOST_OPEN else call
    )


def _refuse_all(call: Call) -> Call | Reply:
    """From the first crowd on, every answer is refused."""
    if call.generates and call.num_open > _MOST_OPEN:
        call.memory["refuses"] = True
    if call.generates and call.memory.get("refuses"):
        return Reply(503, {**_JSON, "retry-after": "1"}, b'{"error": {"message": "full"}}')
    return call


def _ignore_drain(call: Call) -> Call | Reply:
    if call.method == "PATCH" and call.is_admin:
        return Reply(200, _JSON, b'{"draining": true, "in_flight": 0}')
    return call


def _never_ready(call: Call, reply: Reply) -> Reply:
    """A replica that was drained stays draining."""
    if call.method == "PATCH":
        call.memory["name"] = (call.fields() or {}).get("name")
    return _show_drained(call, reply)


def _pretend_to_drain(call: Call) -> Call | Reply:
    """A request to drain only changes what the list of replicas shows."""
    if call.method != "PATCH" or not call.is_admin:
        return call
    fields = call.fields() or {}
    call.memory["name"] = fields.get("name")
    if not fields.get("draining"):
        del call.memory["name"]
    return Reply(200, _JSON, b"{}")


def _show_drained(call: Call, reply: Reply) -> Reply:
    """The replica that the fault remembers is shown as draining."""
    document = reply.document()
    if document is None or "name" not in call.memory:
        return reply
    for one in document.get("replicas", ()):
        if one["name"] == call.memory["name"]:
            one.update(state="draining", draining=True)
    return replace(reply, body=json.dumps(document).encode())


def _fail_while_drained(call: Call) -> Call | Reply:
    if call.is_admin and call.method == "PATCH":
        call.memory["drained"] = bool((call.fields() or {}).get("draining"))
    if call.generates and call.memory.get("drained"):
        return Reply(503, {**_JSON, "retry-after": "1"}, b'{"error": {"message": "draining"}}')
    return call


FAULTS = (
    Fault(
        "health-503",
        "health",
        "/health gets status 503.",
        "/health gets status 503",
        on_call=_answer("/health", 503),
    ),
    Fault(
        "health-missing",
        "health",
        "/health gets status 404.",
        "/health gets status 404",
        on_call=_answer("/health", 404),
    ),
    Fault(
        "not-ready",
        "ready",
        "/ready gets status 503.",
        "/ready gets status 503",
        on_call=_answer("/ready", 503),
        deployment="gateway",
    ),
    Fault(
        "metric-missing",
        "metrics",
        "The gauge of the KV cache is missing.",
        "does not show",
        on_reply=_remove(_KV),
    ),
    Fault(
        "metrics-garbled",
        "metrics",
        "The metrics page is no Prometheus text.",
        "no Prometheus text",
        on_reply=_edit_page(lambda call, page: page.replace("_total{", "_total{{")),
    ),
    Fault(
        "metrics-500",
        "metrics",
        "The metrics page fails.",
        "/metrics: status 500",
        on_call=_answer("/metrics", 500),
    ),
    Fault(
        "requests-undercounted",
        "metrics-requests",
        "Half of the requests are not counted.",
        "count 4 requests, the answers have 8",
        on_reply=_scale(_REQUESTS, 0.5),
    ),
    Fault(
        "requests-overcounted",
        "metrics-requests",
        "Requests are counted twice.",
        "count 16 requests, the answers have 8",
        on_reply=_scale(_REQUESTS, 2),
    ),
    Fault(
        "output-undercounted",
        "metrics-tokens",
        "One of ten output tokens is not counted.",
        "output tokens, the answers have",
        on_reply=_scale(_OUTPUT, 0.9),
    ),
    Fault(
        "prompt-overcounted",
        "metrics-tokens",
        "Prompt tokens are counted twice.",
        "prompt tokens, the answers have",
        on_reply=_scale(_PROMPT, 2),
    ),
    Fault(
        "prefix-cache-off",
        "prefix-cache",
        "Prompts are never found in the cache.",
        "finds no token",
        on_call=edit_call(_salt),
    ),
    Fault(
        "cancellation-lost",
        "cancellation",
        "A client that disconnects is not noticed.",
        "requests run",
        hides_disconnect=True,
    ),
    Fault(
        "gauge-stuck",
        "cancellation",
        "The gauge of requests in flight does not move.",
        "0 requests in flight while",
        on_reply=_scale(_RUNNING, 0),
    ),
    Fault(
        "kv-leak",
        "cancellation",
        "The KV cache of a cancelled stream is not freed.",
        "of the KV cache are in use",
        on_reply=_edit_page(_leak),
    ),
    Fault(
        "answers-mixed-up",
        "answers-apart",
        "An answer goes to another request.",
        "belongs to another request",
        on_reply=_mix_up,
    ),
    Fault(
        "overload-500",
        "overload",
        "Requests at once get status 500.",
        "gives status 500",
        on_call=_crash_in_crowd(500),
    ),
    Fault(
        "overload-without-retry-after",
        "overload",
        "Refusals have no Retry-After.",
        "has no Retry-After",
        on_call=_crash_in_crowd(503),
    ),
    Fault(
        "overload-for-good",
        "overload",
        "After a crowd every request is refused.",
        "status 503",
        on_call=_refuse_all,
    ),
    Fault(
        "acceptance-low",
        "acceptance",
        "Few drafts are accepted.",
        "below",
        on_reply=_scale(_ACCEPTED, 0.1),
        deployment="drafting",
    ),
    Fault(
        "acceptance-above-1",
        "acceptance",
        "More drafts are accepted than made.",
        "which cannot be",
        on_reply=_scale(_ACCEPTED, 10),
        deployment="drafting",
    ),
    Fault(
        "drain-ignored",
        "draining",
        "A request to drain is ignored.",
        "does not drain",
        on_call=_ignore_drain,
        deployment="gateway",
    ),
    Fault(
        "drain-for-good",
        "draining",
        "A drained replica does not return.",
        "does not return",
        on_reply=_never_ready,
        deployment="gateway",
    ),
    Fault(
        "drain-leaks",
        "draining",
        "A drained replica takes requests.",
        "takes requests while",
        on_call=_pretend_to_drain,
        on_reply=_show_drained,
        deployment="gateway",
    ),
    Fault(
        "drain-refuses",
        "draining",
        "Requests fail while a replica is drained.",
        "status 503",
        on_call=_fail_while_drained,
        deployment="gateway",
    ),
)
