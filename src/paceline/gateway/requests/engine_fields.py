"""The fields that the gateway sets in a client's body for one replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.gateway.requests.draft_cap import cap_fields
from paceline.gateway.requests.plan import RequestPlan

_SALTED_DIALECTS = frozenset({"vllm"})
"""Servers that support `cache_salt`; others may refuse an unknown field."""


def engine_fields(plan: RequestPlan, parsed: Mapping[str, Any], dialect: str) -> dict[str, object]:
    """The tenant's cache salt, and the cap on draft tokens, as this kind of server takes them."""
    fields: dict[str, object] = dict(cap_fields(parsed, dialect))
    if plan.cache_salt is not None and dialect in _SALTED_DIALECTS:
        fields["cache_salt"] = plan.cache_salt
    return fields
