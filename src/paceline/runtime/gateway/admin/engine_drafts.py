"""The boundary to the code that starts the engines of this machine: what drafts for each of them.

`draft_swaps` calls it. A gateway without engines of its own has `NoEngines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


class DraftUnfit(Exception):
    """The draft cannot be served with this target on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class EngineDraft:
    """One engine of this machine and its draft."""

    name: str
    state: Literal["starting", "ready", "down"]
    """By its supervisor, whether or not it is drained."""
    draft: str
    """That it runs with."""
    next_draft: str
    """That its next start uses."""
    is_change_pending: bool
    """Whether its next start uses another command than it runs with."""
    failure: str | None
    """Why it did not start with the draft of the last change; None if it did."""


class CheckedDraft(Protocol):
    """A draft that may be served, as far as its files say."""

    @property
    def draft(self) -> str:
        """A folder, a name or a method, as engines report it."""
        ...

    @property
    def why(self) -> str:
        """What is known of it, for a person."""
        ...

    def use(self, engine: str) -> None:
        """Use it from the next start of this engine on. If the engine does not become ready with
        it, it is started with the draft that it had again. Must not block or raise."""
        ...


class EngineDrafts(Protocol):
    """The engines of this machine, and what drafts for them."""

    def engines(self) -> list[EngineDraft]:
        """All engines as of now, in order; empty if there are none. From memory."""
        ...

    def check(self, draft: str) -> CheckedDraft:
        """Check a draft as at a start; `DraftUnfit` if it cannot be served. Reads files, so it may
        block for seconds; called in a thread. Changes nothing."""
        ...

    def undo(self, engine: str) -> None:
        """From the next start of this engine on, use the draft from before the last change. Must
        not block or raise."""
        ...


class NoEngines:
    """The `EngineDrafts` of a gateway without engines of its own."""

    def engines(self) -> list[EngineDraft]:
        return []

    def check(self, draft: str) -> CheckedDraft:
        raise DraftUnfit(f"there is no engine to serve {draft}")

    def undo(self, engine: str) -> None:
        """Nothing: no draft was changed."""
