"""A budget that covers everything or nothing, and keeps what it was asked and paid."""

from __future__ import annotations

from paceline.governor.exploration.exploration_budget import ExplorationBudget


class RecordingBudget(ExplorationBudget):
    """Covers every price while `is_rich`, and otherwise none."""

    def __init__(self, *, is_rich: bool = True) -> None:
        super().__init__()
        self.is_rich = is_rich
        self.asked: list[tuple[float, float]] = []
        """Prices and step times, both in seconds."""
        self.paid: list[float] = []
        """In seconds."""

    def covers(self, price_s: float, step_s: float) -> bool:
        self.asked.append((price_s, step_s))
        return self.is_rich

    def pay(self, price_s: float) -> None:
        self.paid.append(price_s)
