"""The fields that the gateway sets in a client's body for one replica."""

from __future__ import annotations

from paceline.runtime.gateway.requests.draft_cap import cap_fields
from paceline.runtime.gateway.requests.plan import RequestPlan
from paceline.runtime.gateway.requests.prompts import with_text_parts
from paceline.runtime.gateway.requests.routes import CHAT
from paceline.runtime.gateway.requests.validation import CheckedRequest

_SALTED_DIALECTS = frozenset({"vllm"})
"""Servers that support `cache_salt`; others may refuse an unknown field."""


def engine_fields(plan: RequestPlan, request: CheckedRequest, dialect: str) -> dict[str, object]:
    """The tenant's cache salt, the cap on draft tokens and the messages, as this kind of server
    takes them; messages only where they have to be changed."""
    fields: dict[str, object] = dict(cap_fields(request.parsed, dialect))
    if plan.cache_salt is not None and dialect in _SALTED_DIALECTS:
        fields["cache_salt"] = plan.cache_salt
    if request.route is CHAT and (messages := with_text_parts(request.parsed["messages"])):
        fields["messages"] = messages
    return fields
