"""What the n-th request of a phase is: a function of the seed, equal on every engine."""

from __future__ import annotations

import random
from dataclasses import dataclass

from paceline.foundation.shifting_trace.values import Script, TracePhase


@dataclass(frozen=True, slots=True)
class RequestDraw:
    """The category of one request, and the random numbers that belong to it."""

    category: str
    random: random.Random

    def token_counts(self, script: Script) -> tuple[int, int]:
        """Prompt and output tokens. Draws from `random`: call it once."""
        prompt, output = script.prompt_tokens, script.output_tokens
        return (
            self.random.randint(prompt.low, prompt.high),
            self.random.randint(output.low, output.high),
        )


def draw_request(phase: TracePhase, phase_number: int, index: int, seed: int) -> RequestDraw:
    """Request `index` of the phase; equal arguments give equal requests."""
    draws = random.Random(f"{seed} {phase_number} {index}")
    names = [name for name, _ in phase.mix]
    weights = [weight for _, weight in phase.mix]
    return RequestDraw(draws.choices(names, weights)[0], draws)
