"""Requests that ended an audit, or the audited server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.workbench.audit.server.bodies import describe_request


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """The completion that ended an audit, one of those in flight."""

    url: str
    """Of the server, or of the reference."""
    body: Mapping[str, Any]
    error: str
    is_server_alive: bool
    """Whether it answers a greedy request for one token afterwards."""


@dataclass(frozen=True, slots=True)
class Death:
    """A request that ended the audited server while no other of the audit was in flight."""

    body: Mapping[str, Any]
    error: str
    phase: str
    is_back: bool
    """Whether the server answered again within `restart_seconds`."""
    ends_again: bool | None = None
    """Whether the same request, sent once more to the server that was back, ended it again; None if
    that is not known."""

    def __str__(self) -> str:
        ended = {
            True: "an ordinary request ends the server each time (2 of 2)",
            False: "the server ended once at an ordinary request, and not when it was sent again",
            None: "an ordinary request ended the server",
        }[self.ends_again]
        after = "" if self.is_back else "; it was not back when the audit ended"
        return (
            f"{ended}, {describe_request(self.body)}, sent alone during the check of {self.phase}: "
            f"{self.error}{after}"
        )
