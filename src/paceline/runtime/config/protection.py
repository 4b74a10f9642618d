"""Which settings protect something: a server without their value is open to more than it should be.

A test has the others, so that a new setting is put into one of the two tables. A protecting setting
is never empty: nothing, a null, blank text or an empty list is refused in every source, so that a
template without a value, or a variable that is not set, does not switch the protection off. A
setting that shall not apply is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROTECTS: Mapping[str, str] = {
    "server.host": "who can connect to the data port",
    "server.admin_host": "who can connect to the admin port",
    "server.probe_host": "who can connect to the port for probes",
    "server.allowed_hosts": "a data port without keys from web pages (DNS rebinding)",
    "server.allowed_origins": "a data port without keys from web pages",
    "server.max_body_bytes": "memory and time from large bodies",
    "server.max_json_values": "time from bodies with many values",
    "server.max_buffered_bytes": "the memory of the gateway",
    "server.max_tenant_buffered_fraction": "the memory of other tenants",
    "server.max_connections": "descriptors from floods of connections",
    "server.max_choices": "the engines from requests for many answers",
    "server.granted_fields": "the engines from fields that control them",
    "server.first_byte_timeout_s": "slots from replicas that do not begin",
    "server.stall_timeout_s": "slots from streams that do not continue",
    "server.response_timeout_s": "slots from answers that do not end",
    "server.log_prompts": "prompts and answers from the log",
    "engine.skip_checks": "the machine from a start that cannot work",
    "admission.max_in_flight": "the engines from too many sequences",
    "admission.max_tokens_in_flight": "the engines from too many tokens",
    "admission.max_queue": "memory from requests that wait",
    "admission.max_queue_wait_s": "clients from long waits",
    "admission.max_deadline_s": "slots from requests that do not end",
    "failures.max_attempts": "engines from a request that crashes them",
    "failures.max_continuations": "engines from a stream that fails them",
    "failures.max_replica_deaths": "engines from a request that crashes them",
    "failures.retry_fraction": "replicas from floods of retries",
    "failures.retry_reserve": "replicas from floods of retries",
    "keys.file": "the data port from clients without a key",
    "keys.admin_key_file": "the admin port from operators without a key",
    "keys.salt_file": "a tenant's prompts from guesses of others (prefix cache)",
    "keys.metrics_need_key": "the metrics from readers without a key",
    "keys.audit_file": "the record of changes on the admin port",
    "capture.folder": "prompts: those that are kept are kept here",
    "capture.share": "prompts: how many are kept",
    "capture.answers": "answers: whether they are kept",
    "capture.max_bytes": "the disk from kept prompts",
    "capture.max_age_s": "prompts from being kept for long",
    "capture.redact": "kept prompts: what is removed from them",
    "replicas.key_file": "the key that a replica requires",
    "replicas.max_in_flight": "the replica from too many sequences",
    "replicas.max_tokens_in_flight": "the replica from too many tokens",
    "replicas.revision": "streams from a continuation by another model",
}
"""Setting → what it protects, and from what."""


def is_empty(value: Any) -> bool:
    """Whether a value says nothing."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple | dict | set | frozenset) and not value)


def why_empty_refused(name: str, value: Any) -> str | None:
    """Why this value of the setting called `name` is refused; None for one that says something.

    >>> why_empty_refused("keys.file", " ")
    "keys.file is empty (' '); give a value, or remove the setting"
    """
    if not is_empty(value) or (name not in PROTECTS and not isinstance(value, str)):
        return None
    shown = "" if value is None else f" ({value!r})"
    return f"{name} is empty{shown}; give a value, or remove the setting"
