"""Prompts of which only the lengths count, such as 512 tokens in and 128 out.

The text is real (`filler`): random tokens would overstate or understate what a drafter gains.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.foundation.workloads.filler import FillerText
from paceline.foundation.workloads.prompts import Prompt

_TASK = "synthetic"


@dataclass(frozen=True, slots=True)
class SyntheticLengths:
    """Lengths in tokens, each drawn uniformly from `(1 - spread) n` to `(1 + spread) n`.

    `vllm bench serve` calls the spread its range ratio, with the same meaning.
    """

    input_tokens: int
    output_tokens: int
    spread_fraction: float = 0.0

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 <= self.spread_fraction < 1:
            raise ValueError(
                f"spread_fraction is {self.spread_fraction}; it must be at least 0 and below 1"
            )

    @property
    def label(self) -> str:
        """For people.

        >>> SyntheticLengths(512, 128, 0.25).label
        'synthetic, 512 tokens in and 128 out, each within 25 %'
        """
        text = f"synthetic, {self.input_tokens} tokens in and {self.output_tokens} out"
        spread = self.spread_fraction
        return f"{text}, each within {spread * 100:g} %" if spread else text

    def prompts(self, count: int, seed: int, filler: FillerText) -> Iterator[Prompt]:
        """`count` different prompts; a longer row begins with the shorter one of the same seed."""
        draws = random.Random(seed)
        for number in range(count):
            num_input = self._draw(draws, self.input_tokens)
            num_output = self._draw(draws, self.output_tokens)
            yield Prompt(
                task=_TASK,
                messages=None,
                text=filler.prompt(num_input, f"request {seed}-{number}"),
                max_tokens=num_output,
                ignore_eos=True,
                input_tokens=num_input,
            )

    def _draw(self, draws: random.Random, mean: int) -> int:
        low = max(1, math.ceil(mean * (1 - self.spread_fraction)))
        return draws.randint(low, math.floor(mean * (1 + self.spread_fraction)))
