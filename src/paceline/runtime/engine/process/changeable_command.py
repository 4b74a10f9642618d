"""`ChangeableCommand`: the command of an engine, and what it is changed to at the next start.

Pure: the supervisor reports each start and how it went. A changed command is on trial until the
engine has become ready with it. If that fails, the command before is the next one again: an engine
that served must not be lost to a change.

    in force ──change──▶ pending ──started──▶ on trial ──became ready──▶ in force
       ▲                    │undo                 │did not become ready
       └────────────────────┴─────────────────────┘ the command before
"""

from __future__ import annotations

from paceline.runtime.engine.launch.command import EngineCommand


class ChangeableCommand:
    """The command of the current engine, of the next start, and before the last change."""

    def __init__(self, command: EngineCommand, following: EngineCommand | None = None) -> None:
        """`following` is used from the next start on, without a trial."""
        self.current = command
        """Of the current engine, or of the last one if none runs."""
        self._next = following
        self._before: EngineCommand | None = None
        self._is_on_trial = False
        self.failure: str | None = None
        """Why the last change was given up; None if it was not."""

    @property
    def is_change_pending(self) -> bool:
        """Whether the next start uses another command than the current engine."""
        return self._next is not None

    def change(self, command: EngineCommand) -> None:
        """Use `command` from the next start on, on trial. Replaces a change that is pending."""
        self._before = self.at_next_start
        self._next = command
        self._is_on_trial = True
        self.failure = None

    def undo(self) -> None:
        """Use the command from before the last change from the next start on."""
        if self._before is None:
            return
        self._next = None if self._before is self.current else self._before
        self._before = None
        self._is_on_trial = False

    @property
    def at_next_start(self) -> EngineCommand:
        """The command that the next start uses."""
        return self.current if self._next is None else self._next

    def start(self) -> EngineCommand:
        """A start begins; returns its command."""
        self.current, self._next = self.at_next_start, None
        return self.current

    def became_ready(self) -> None:
        """The engine serves. A change that is pending stays on trial for its own start."""
        if self._next is None:
            self._is_on_trial = False

    def failed(self, reason: str) -> None:
        """The engine ended, or could not be started, before it was ready."""
        if self._is_on_trial and self._next is None:
            self.undo()
            self.failure = reason
