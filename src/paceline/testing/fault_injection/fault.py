"""`Fault`: what a proxy changes on the way, and the check that must find it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way to the deployment."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    is_admin: bool
    """Whether it is for the admin port."""
    number: int
    """Of the call since the fault was injected, from 0."""
    num_open: int
    """Calls in flight, this one included."""
    known_key: str | None
    """The header `authorization` of a call that was answered."""
    known_model: str | None
    """The model of a call that was answered."""
    memory: dict[str, Any]
    """Kept from call to call while the fault is injected."""
    state: dict[str, Any] = field(default_factory=dict)
    """Kept from event to event of this call."""

    def fields(self) -> dict[str, Any] | None:
        """The JSON object of the body; None if it is none."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None

    def with_fields(self, fields: dict[str, Any]) -> Call:
        """The same call with another JSON body."""
        return replace(self, body=json.dumps(fields).encode())

    @property
    def generates(self) -> bool:
        """Whether the call asks for an answer of the model."""
        return self.method == "POST" and self.path.endswith("/completions")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply on its way to the client."""

    status: int
    headers: dict[str, str]
    body: bytes

    def document(self) -> dict[str, Any] | None:
        """The JSON object of the body; None if it is none."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None


Event = bytes
"""The data of one server-sent event."""
CUT = b"\x00cut"
"""In place of an event: the connection breaks here."""


def _keep_call(call: Call) -> Call | Reply:
    return call


def _keep_reply(call: Call, reply: Reply) -> Reply:
    return reply


def _keep_event(call: Call, event: Event) -> list[Event]:
    return [event]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Every hook leaves alone by default."""

    name: str
    check: str
    """The id of the check that must fail."""
    about: str
    evidence: str
    """Part of the reason of that check: it fails because of the fault, not of something else."""
    on_call: Callable[[Call], Call | Reply] = _keep_call
    """Changes the request, or answers it without the deployment."""
    on_reply: Callable[[Call, Reply], Reply] = _keep_reply
    on_event: Callable[[Call, Event], list[Event]] = _keep_event
    """What is sent instead of an event of a stream."""
    content_type: str | None = None
    """Of streams."""
    first_delay_s: float = 0.0
    """Before the first byte of an answer of the model."""
    event_delay_s: float = 0.0
    """Before every event."""
    hides_disconnect: bool = False
    """A client that disconnects is not noticed: the deployment computes the whole answer."""
    deployment: str = "plain"
    """plain: any server; drafting: one that shows counters of drafts; baseline: one beside which
    the unquantized model is served; gateway: Paceline's gateway with its admin port."""
    tier_changes: dict[str, Any] = field(default_factory=dict)
    """Fields of a tier whose limits the fault breaks."""


NO_FAULT = Fault("none", "", "The deployment as it is.", "")


def edit_call(edit: Callable[[dict[str, Any]], None]) -> Callable[[Call], Call | Reply]:
    """An `on_call` that edits the fields of requests for answers."""

    def on_call(call: Call) -> Call | Reply:
        fields = call.fields() if call.generates else None
        if fields is None:
            return call
        edit(fields)
        return call.with_fields(fields)

    return on_call


def edit_answer(edit: Callable[[dict[str, Any]], None]) -> Callable[[Call, Reply], Reply]:
    """An `on_reply` that edits whole answers of the model."""

    def on_reply(call: Call, reply: Reply) -> Reply:
        document = reply.document() if call.generates and reply.status == 200 else None
        if document is None:
            return reply
        edit(document)
        return replace(reply, body=json.dumps(document).encode())

    return on_reply


def edit_chunk(
    edit: Callable[[Call, dict[str, Any]], list[dict[str, Any]]],
) -> Callable[[Call, Event], list[Event]]:
    """An `on_event` that replaces chunks of streams; [DONE] is left alone."""

    def on_event(call: Call, event: Event) -> list[Event]:
        if event == b"[DONE]":
            return [event]
        return [json.dumps(chunk).encode() for chunk in edit(call, json.loads(event))]

    return on_event
