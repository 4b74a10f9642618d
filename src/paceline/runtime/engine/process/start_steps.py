"""`StartSteps`: what a starting engine does, read from its log.

vLLM reports the steps of its start only there. A release that words a step otherwise makes the step
before it seem longer.
"""

from __future__ import annotations

import re
from pathlib import Path

MARKS = (
    ("Starting to load model ", "loading the model"),
    ("Warming up model for the compilation", "compiling the model"),  # on CPUs
    ("for vLLM's torch.compile", "compiling the model"),  # on GPUs
    ("Capturing CUDA graphs", "capturing CUDA graphs"),
)
"""Part of a line of vLLM, and the step that begins with it; in the order of a start."""
_COSTS = re.compile(r"\] Costs: (.*)")
"""Lines of `engine.calibration`: what it does, and its result."""
_LINE_END = re.compile(rb"[\r\n]")


class StartSteps:
    """Follows the log of one start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._num_read_bytes = 0
        self._open_line = b""
        self._num_passed = 0
        """Marks up to that of the current step. Several workers log each of them."""

    def read_new(self) -> list[str]:
        """The steps that began since the last call. Empty if the log cannot be read."""
        try:
            with self._log.open("rb") as file:
                if self._log.stat().st_size < self._num_read_bytes:  # the guard began another file
                    self._num_read_bytes = 0
                file.seek(self._num_read_bytes)
                added = file.read()
        except OSError:
            return []
        self._num_read_bytes += len(added)
        *lines, self._open_line = _LINE_END.split(self._open_line + added)
        found = (self._step_in(line.decode(errors="replace")) for line in lines)
        return [step for step in found if step is not None]

    def _step_in(self, line: str) -> str | None:
        costs = _COSTS.search(line)
        if costs is not None:
            return f"step times: {costs[1]}"
        for index, (mark, step) in enumerate(MARKS):
            if mark in line and index >= self._num_passed:
                is_new = not self._num_passed or MARKS[self._num_passed - 1][1] != step
                self._num_passed = index + 1
                return step if is_new else None
        return None
