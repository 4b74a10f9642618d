"""The gateway accepts every kind of request, and continues those that count as eligible."""

from __future__ import annotations

import json

import pytest

from chaos.real_engines.request_kinds import (
    CHAT,
    COMPLETIONS,
    FAST_KINDS,
    RESPONSES,
    SLOW_KINDS,
    RequestKind,
    body_of,
)
from paceline.runtime.gateway import GatewaySettings
from paceline.runtime.gateway.continuation.eligibility import why_not_continued
from paceline.runtime.gateway.requests import routes
from paceline.runtime.gateway.requests.validation import check_request

ROUTES = {
    CHAT: routes.CHAT,
    COMPLETIONS: routes.COMPLETIONS,
    RESPONSES: routes.RESPONSES,
}
SETTINGS = GatewaySettings(granted_fields=frozenset({"ignore_eos"}))


@pytest.mark.parametrize("kind", [*FAST_KINDS, *SLOW_KINDS], ids=lambda kind: kind.name)
def test_eligible_kinds_are_those_that_the_gateway_continues(kind: RequestKind) -> None:
    body = body_of(kind, "model", "text", 8)
    assert check_request(ROUTES[kind.path], json.dumps(body).encode(), SETTINGS).model == "model"
    is_continued = kind.path != RESPONSES and why_not_continued(body) is None
    assert is_continued == kind.is_eligible
