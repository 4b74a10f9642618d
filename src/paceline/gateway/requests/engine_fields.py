"""The fields that the gateway sets in a client's body for one replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.gateway.requests.draft_cap import cap_fields
from paceline.gateway.requests.plan import RequestPlan
from paceline.gateway.requests.prompts import with_text_parts

_SALTED_DIALECTS = frozenset({"vllm"})
"""Servers that support `cache_salt`; others may refuse an unknown field."""


def engine_fields(plan: RequestPlan, parsed: Mapping[str, Any], dialect: str) -> dict[str, object]:
    """The tenant's cache salt and the cap on draft tokens, as this kind of server takes them, and
    messages in which strings among the parts are parts."""
    fields: dict[str, object] = dict(cap_fields(parsed, dialect))
    messages = parsed.get("messages")
    if isinstance(messages, list) and (rewritten := with_text_parts(messages)) != messages:
        fields["messages"] = rewritten
    if plan.cache_salt is not None and dialect in _SALTED_DIALECTS:
        fields["cache_salt"] = plan.cache_salt
    return fields
