"""The extension point `Workload`: a named, seeded list of prompts with a default temperature.

To add a workload, put one file into `paceline/foundation/workloads/builtin/` whose name is the
workload's name and which assigns the workload to `WORKLOAD`. The registry finds it; `paceline bench
run --workload` and the benchmarks then accept its name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from paceline.foundation.workloads.prompts import Prompt


class TextKind(StrEnum):
    """How well a drafter predicts a text. The policy simulator has one traffic class per kind."""

    PREDICTABLE = "predictable"
    """The answer copies or restates its prompt."""
    MIDDLING = "middling"
    """Source code, greedy."""
    HARD = "hard"
    """Source code, sampled at temperature 1."""
    VARIED = "varied"
    """Requests differ from each other in how predictable they are."""


class Workload(Protocol):
    """A named set of prompts. Values only: nothing here sends a request."""

    @property
    def name(self) -> str:
        """Lower case; also the name of the file that declares the workload."""
        ...

    @property
    def description(self) -> str:
        """One line for `--help` and docs/workloads.md."""
        ...

    @property
    def temperature(self) -> float:
        """Sampling temperature unless the user names one; 0 is greedy."""
        ...

    @property
    def text_kind(self) -> TextKind | None:
        """The traffic class of the policy simulator; None where the simulator has none like it."""
        ...

    def prompts(self, seed: int) -> list[Prompt]:
        """The prompts in the order of `seed`: never empty, and equal for equal seeds.

        Raises WorkloadError when its source cannot be read. Callers repeat the list when they need
        more requests.
        """
        ...
