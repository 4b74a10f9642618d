"""`StopScanner`: find stop strings in a continued stream, also across the resume point.

The continuing engine would look for stop strings in its own output alone, so it gets none: the
gateway looks for them in the text of both engines. The rule is vLLM's (`check_stop_strings`): the
stop string that is complete first ends the answer; if several are complete at the same token, the
first in the list does. Unless stop strings are shown, characters that may begin one are held back.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopScanner:
    """Takes text of the answer and returns the text that may be sent."""

    def __init__(self, stops: Sequence[str], *, shows_stop: bool, delivered: str) -> None:
        """`delivered` is the text already sent; a stop string may begin in it."""
        self._stops = stops
        self._shows_stop = shows_stop
        self._reach = max(map(len, stops), default=1) - 1
        """The longest unfinished beginning of a stop string."""
        self._text = delivered[-self._reach :] if self._reach else ""
        self._num_sent = len(self._text)
        self.matched: str | None = None
        """The stop string that ended the answer."""

    def feed(self, text: str) -> str:
        """The text that may be sent now; nothing more after a match."""
        if self.matched is not None:
            return ""
        self._text += text
        end = self._find(max(len(self._text) - len(text) - self._reach, 0))
        if end is None:
            end = max(len(self._text) - (0 if self._shows_stop else self._reach), 0)
        out = self._text[self._num_sent : end]
        self._num_sent = max(self._num_sent, end)
        surplus = min(self._num_sent, len(self._text)) - self._reach
        if surplus > 0:
            self._text = self._text[surplus:]
            self._num_sent -= surplus
        return out

    def flush(self) -> str:
        """The text held back; call it when the engine has ended the answer by itself."""
        if self.matched is not None:
            return ""
        out = self._text[self._num_sent :]
        self._num_sent = len(self._text)
        return out

    def _find(self, start: int) -> int | None:
        """Where the answer ends, if a stop string is complete."""
        found = [(at + len(s), rank) for rank, s in enumerate(self._stops)
                 if (at := self._text.find(s, start)) >= 0]  # fmt: skip
        if not found:
            return None
        end, rank = min(found)
        self.matched = self._stops[rank]
        return end if self._shows_stop else end - len(self.matched)
