"""`Trace`: recorded requests and sessions as data, and the prompts that are made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.workloads.filler import FillerText
from paceline.foundation.workloads.prompts import Prompt, Turn

TRACE_TASK = "trace"
"""Category of requests that name none."""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One recorded request, a prompt or the lengths from which one is made, and its later turns."""

    due_s: float | None
    """From the first request of the trace; None where the trace states no time."""
    recorded: Prompt | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    block_ids: tuple[int, ...] = ()
    """Equal ids at the beginning of two requests are a shared prefix."""
    block_tokens: int = 0
    """Tokens that each of `block_ids` stands for; 0 until it is known."""
    think_s: float | None = None
    """Of a later turn: from the end of the answer before; None: its own time counts."""
    turns: tuple[TraceEntry, ...] = ()
    """Later requests of the session."""

    def prompt(self, number: int, filler: FillerText | None) -> Prompt:
        """The request to send. `filler` makes the text of an entry that has lengths only.

        A session of lengths without blocks is a chat: each length is that of a new message, after
        the messages and answers so far. Any other session sends each request as it was recorded.
        """
        key = f"request {number}"
        if self.turns and not any(e.recorded or e.block_ids for e in (self, *self.turns)):
            first = self._growing_chat(key, filler)
        else:
            later = (
                turn._turn(self, recorded=turn._request(f"{key} turn {n}", filler))
                for n, turn in enumerate(self.turns, start=1)
            )
            first = dataclasses.replace(self._request(key, filler), turns=tuple(later))
        return dataclasses.replace(first, due_s=self.due_s)

    def _request(self, key: str, filler: FillerText | None) -> Prompt:
        if self.recorded is not None:
            return self.recorded
        return Prompt(
            task=TRACE_TASK,
            messages=None,
            text=self._text(key, filler),
            max_tokens=self.output_tokens,
            ignore_eos=True,
            input_tokens=self.input_tokens,
        )

    def _growing_chat(self, key: str, filler: FillerText | None) -> Prompt:
        return Prompt(
            task=TRACE_TASK,
            messages=({"role": "user", "content": self._text(key, filler)},),
            text=None,
            max_tokens=self.output_tokens,
            ignore_eos=True,
            turns=tuple(
                turn._turn(self, content=turn._text(f"{key} turn {n}", filler))
                for n, turn in enumerate(self.turns, start=1)
            ),
        )

    def _turn(self, first: TraceEntry, content: str = "", recorded: Prompt | None = None) -> Turn:
        after_s = None
        if self.think_s is None and self.due_s is not None and first.due_s is not None:
            after_s = self.due_s - first.due_s
        return Turn(
            content,
            think_s=self.think_s or 0.0,
            max_tokens=self.output_tokens or None,
            after_s=after_s,
            recorded=recorded,
        )

    def _text(self, key: str, filler: FillerText | None) -> str:
        if filler is None:
            raise ValueError("an entry with lengths only needs a filler text")
        return filler.prompt(self.input_tokens, key, self.block_ids, self.block_tokens)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was read."""

    entries: tuple[TraceEntry, ...]
    """In the order of their times, which begin at 0 and are divided by the speed."""
    form: str | None
    """The public trace whose form it has; None for any other."""
    time_unit: str | None
    """`s`, `ms`, `us`, `ns` or `date`; None for a trace without times."""
    duration_s: float
    """Between its first and its last time, as recorded."""
    num_left_out: int
    """Records without input or without output tokens, as failed requests have."""

    @property
    def has_times(self) -> bool:
        return self.time_unit is not None

    @property
    def needs_filler(self) -> bool:
        """Whether the texts of some requests have to be made from their lengths."""
        return _need_filler(self.entries)


def _need_filler(entries: Sequence[TraceEntry]) -> bool:
    return any(entry.recorded is None or _need_filler(entry.turns) for entry in entries)
