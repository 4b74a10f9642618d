"""Decide which fault a request triggers.

Pure decisions: `answer_faults` and `server_faults` inject the faults. An immediate fault (see
`Fault.is_immediate`) is injected when it is added; every other fault waits for a request that
matches its conditions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from paceline.testing.mock_vllm.faults.fault import Fault
from paceline.testing.mock_vllm.model.vocabulary import decode


class ActiveFault:
    """A fault in the book, with its counts."""

    __slots__ = ("fault", "num_seen", "num_triggered")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.num_seen = 0
        """Requests to the fault's route since it was added."""
        self.num_triggered = 0


class FaultBook:
    """The active faults."""

    def __init__(self, seed: int) -> None:
        self._active: list[ActiveFault] = []
        self._random = random.Random(seed)

    def add(self, fault: Fault) -> ActiveFault:
        self._active.append(ActiveFault(fault))
        return self._active[-1]

    def clear(self) -> None:
        self._active = []

    def matching(self, route: str, prompts: Sequence[Sequence[int]] = ()) -> list[ActiveFault]:
        """Return the faults that this request may trigger, and count it for every fault's route."""
        return [entry for entry in self._active if self._matches(entry, route, prompts)]

    def _matches(self, entry: ActiveFault, route: str, prompts: Sequence[Sequence[int]]) -> bool:
        fault = entry.fault
        if fault.is_immediate or fault.route not in (route, "any"):
            return False
        text = fault.containing
        if text is not None and not any(text in decode(prompt) for prompt in prompts):
            return False
        end = fault.ending
        if end is not None and not any(decode(prompt).endswith(end) for prompt in prompts):
            return False
        entry.num_seen += 1
        if fault.request is not None and entry.num_seen != fault.request:
            return False
        if fault.every is not None and entry.num_seen % fault.every:
            return False
        return fault.rate is None or self._random.random() < fault.rate

    def trigger(self, entry: ActiveFault) -> bool:
        """Return whether the fault may be injected now, and count it.

        False once the fault was cleared, or was triggered `times` times.
        """
        times = entry.fault.times
        if entry not in self._active or (times is not None and entry.num_triggered >= times):
            return False
        entry.num_triggered += 1
        return True

    def describe(self) -> list[dict[str, Any]]:
        """Return the active faults and their counts, for GET /mock_vllm/faults."""
        return [
            {
                **{field.name: getattr(entry.fault, field.name) for field in fields(Fault)},
                "num_seen": entry.num_seen,
                "num_triggered": entry.num_triggered,
            }
            for entry in self._active
        ]
