"""Phases of a load with known acceptance, and what one arm did in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """A constant number of decoding requests, and the acceptance of their drafts."""

    num_requests: int
    context_tokens: int
    """Prompt tokens of each request."""
    acceptance: float
    """Chance that a draft token is accepted if those before it were."""

    @property
    def name(self) -> str:
        return f"{self.num_requests} requests, {self.context_tokens} tokens, {self.acceptance:g}"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one arm did in one phase of one repeat."""

    arm: str
    phase: str
    repeat: int
    output_tokens: int
    seconds: float
    lengths: tuple[int, ...]
    """Draft length of each step, (num_steps,)."""
    verified_tokens: int = 0
    """Draft tokens that were verified, as the governor counts them; 0 without one."""
    accepted_tokens: int = 0
    """Of these. Tokens that adaptive verification left out are in neither count."""

    @property
    def tokens_per_s(self) -> float:
        return self.output_tokens / self.seconds


class ArmRunner(Protocol):
    """An engine that runs one arm after the other in a phase."""

    def allowed_lengths(self) -> tuple[int, ...]:
        """The draft lengths that the engine runs at full speed."""
        ...

    def run(self, arm: str, phase: LoadPhase, num_steps: int, repeat: int) -> Turn:
        """Serve the phase under `arm`, one of this engine's (`engine_kinds`).

        Blocks until the steps are done. A policy keeps what it learned in earlier phases.
        """
        ...


def make_phases(
    batches: tuple[int, ...], contexts: tuple[int, ...], acceptances: tuple[float, ...]
) -> list[LoadPhase]:
    """Every combination."""
    return [
        LoadPhase(batch, context, acceptance)
        for batch in batches
        for context in contexts
        for acceptance in acceptances
    ]
