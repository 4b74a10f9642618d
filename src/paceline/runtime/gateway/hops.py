"""Find out that a request leads back to a gateway that has passed it on.

An entry of `replicas` may lead back here: the gateway's own URL, a DNS name that selects the
gateways, two gateways that list each other. Each gateway has a random id. It adds the id to a
header of what it sends to remote replicas, and each of its ports refuses a request that carries
the id already. The refusal repeats the id; a 508 of any other server does not.

A client cannot know the id, so whatever it sends in the header, no other request is refused, and
no replica refuses its own. For the same reason the number of gateways in a row is not limited: a
client could bring a request close to the limit, and a healthy replica would seem to fail. Of more
than `_MAX_HOPS` ids the oldest are dropped, so a loop through more gateways is not found.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from paceline.runtime.gateway.http.asgi import App, Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.errors import Problem

HOPS_HEADER = "x-paceline-hops"
_LEADS_BACK = Problem(
    508,
    "This gateway has passed on this request already: an entry of its replicas leads back to it. "
    "Have the operator remove the entry.",
    "leads_back",
    closes_connection=True,
    should_retry=False,
)

_HEADER = HOPS_HEADER.encode()
_ID = re.compile(rb"[0-9a-f]{16}")
_MAX_HOPS = 16
"""Far above any row of gateways in use."""


def new_gateway_id() -> str:
    """The id of a gateway, shared by its worker processes."""
    return secrets.token_hex(8)


def hops_of(scope: Scope) -> list[str]:
    """The ids of the gateways that have passed on this request, oldest first; the last ones of
    many."""
    given = [value for name, value in scope["headers"] if name == _HEADER]
    found = [part.decode() for value in given for part in _ID.findall(value)]
    return found[-_MAX_HOPS:]


def refusing_loops(app: App, gateway_id: str) -> App:
    """The application of a port, without the requests that this gateway has passed on."""
    headers = [*_LEADS_BACK.headers(), (_HEADER, gateway_id.encode())]

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if gateway_id in hops_of(scope):
            await send_body(send, _LEADS_BACK.status, _LEADS_BACK.body(), headers=headers)
        else:
            await app(scope, receive, send)

    return guarded


def is_own_refusal(status: int, headers: Mapping[str, str], gateway_id: str) -> bool:
    """Whether the answer to a request of this gateway is a refusal by one of its own ports.

    >>> is_own_refusal(508, {"x-paceline-hops": "0123456789abcdef"}, "0123456789abcdef")
    True
    >>> is_own_refusal(508, {}, "0123456789abcdef")
    False
    """
    return status == _LEADS_BACK.status and headers.get(HOPS_HEADER, "") == gateway_id != ""


def add_hop(hops: list[str], gateway_id: str) -> str:
    """The value of the header of a request that is passed on.

    >>> add_hop(["0123456789abcdef"], "fedcba9876543210")
    '0123456789abcdef,fedcba9876543210'
    """
    return ",".join([*hops, gateway_id][-_MAX_HOPS:])
