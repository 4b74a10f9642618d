"""The order in which the engines run the slices of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.governor.interleaved.campaign import run_turn


@dataclass
class Engine:
    """Pauses `num_pauses` times before it answers with figures."""

    name: str
    num_pauses: int
    asked: list[str]

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(f"{self.name} {order['op']}")
        if self.num_pauses:
            self.num_pauses -= 1
            return {"paused": True}
        return {"tokens": 1}


def test_engines_take_turns_in_alternating_order_until_all_have_finished() -> None:
    asked: list[str] = []
    engines = {"a": Engine("a", 2, asked), "b": Engine("b", 1, asked), "c": Engine("c", 2, asked)}
    found = run_turn({"op": "phase"}, engines)
    assert asked == [
        *("a phase", "b phase", "c phase"),
        *("c continue", "b continue", "a continue"),
        *("a continue", "c continue"),
    ]
    assert found == {name: {"tokens": 1} for name in "abc"}
