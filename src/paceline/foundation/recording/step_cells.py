"""Gather steps of a similar shape into cells: their number, mean work, and mean duration.

The cost of a step is linear in its work, nearly, so the means of a cell fit it as well as the steps
themselves. Requests and draft length are exact in a cell; prompt and context tokens are within a
factor of two, and steps without any are apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.recording.records import StepCell

_Key = tuple[int, int, bool, bool, int, int]


@dataclass(slots=True)
class _Sums:
    count: int = 0
    verified: int = 0
    prefill: int = 0
    context: int = 0
    mean_s: float = 0.0
    squares: float = 0.0


class StepCells:
    """The cells of one block."""

    def __init__(self) -> None:
        self._cells: dict[_Key, _Sums] = {}
        self.num_steps = 0

    def add(
        self,
        *,
        num_requests: int,
        draft_length: int,
        is_clean: bool,
        verified_tokens: int,
        prefill_tokens: int,
        context_tokens: int,
        seconds: float,
    ) -> None:
        """Add one step."""
        key = (
            num_requests,
            draft_length,
            is_clean,
            verified_tokens > 0,
            prefill_tokens.bit_length(),
            context_tokens.bit_length(),
        )
        sums = self._cells.get(key)
        if sums is None:
            sums = self._cells[key] = _Sums()
        self.num_steps += 1
        sums.count += 1
        sums.verified += verified_tokens
        sums.prefill += prefill_tokens
        sums.context += context_tokens
        # Welford's update.
        deviation = seconds - sums.mean_s
        sums.mean_s += deviation / sums.count
        sums.squares += deviation * (seconds - sums.mean_s)

    def take(self) -> tuple[StepCell, ...]:
        """Return the cells and begin a new block."""
        cells, self._cells, self.num_steps = self._cells, {}, 0
        return tuple(
            StepCell(
                num_requests=key[0],
                draft_length=key[1],
                is_clean=key[2],
                count=sums.count,
                verified_tokens=round(sums.verified / sums.count, 3),
                prefill_tokens=round(sums.prefill / sums.count, 3),
                context_tokens=round(sums.context / sums.count, 1),
                seconds=round(sums.mean_s, 9),
                squares=round(max(sums.squares, 0.0), 12),
            )
            for key, sums in cells.items()
        )
