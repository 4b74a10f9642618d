"""What the server answered to one request, as values: whole replies and streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.values import Violation

DONE = b"[DONE]"
_MAX_SHOWN_CHARS = 160


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    asked: str
    """What was requested, for messages."""
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """The beginning of the body, for messages."""
        return self.body[:_MAX_SHOWN_CHARS].decode("utf-8", "replace")

    def document(self) -> dict[str, Any]:
        """The JSON object of the body; `Violation` if it is none."""
        try:
            parsed = json.loads(self.body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise Violation(f"{self.asked}: the answer is no JSON object: {self.text!r}")
        return parsed

    def expect_ok(self) -> Reply:
        """This reply; `Violation` unless its status is 200."""
        if self.status != 200:
            raise Violation(f"{self.asked}: status {self.status}: {self.text}")
        return self


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed answer, whole or up to where it ended."""

    asked: str
    status: int
    content_type: str
    events: tuple[bytes, ...]
    """The data of its events, in order; of a refusal the body."""
    failure: str | None = None
    """Why the body is not complete as HTTP."""

    def expect_ok(self) -> Stream:
        """This stream; `Violation` unless its status is 200 and its body complete."""
        if self.status != 200:
            body = b"".join(self.events)[:_MAX_SHOWN_CHARS].decode("utf-8", "replace")
            raise Violation(f"{self.asked}: status {self.status}: {body}")
        if self.failure is not None:
            raise Violation(f"{self.asked}: the stream broke off: {self.failure}")
        return self

    def chunks(self) -> list[dict[str, Any]]:
        """The JSON objects of the events; `Violation` for an event that is none."""
        found = []
        for event in self.events:
            if event == DONE:
                continue
            try:
                chunk = json.loads(event)
            except (ValueError, RecursionError):
                chunk = None
            if not isinstance(chunk, dict):
                shown = event[:_MAX_SHOWN_CHARS].decode("utf-8", "replace")
                raise Violation(f"{self.asked}: an event is no JSON object: {shown!r}")
            if chunk.get("error") is not None:
                raise Violation(f"{self.asked}: an error in the stream: {chunk['error']}")
            found.append(chunk)
        return found
