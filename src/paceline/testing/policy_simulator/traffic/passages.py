"""Requests whose text has easy and hard passages, with the true acceptance of every token.

Steps sample such a text unevenly: a long draft passes over an easy passage in a few steps. So what
a drafter seems to achieve depends on the draft length, although the text does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class PassageTraffic:
    """One category of requests."""

    acceptance: float
    """Mean over its requests of the chance that a drafted token is accepted."""
    spread: float = 0.12
    """Standard deviation of that chance between requests; they are beta distributed."""
    contrast: float = 0.25
    """How far easy and hard passages are from a request's mean, at most."""
    passage_tokens: float = 12.0
    """Mean length of a passage; lengths are geometric."""
    output_tokens: int = 100
    session_requests: int = 1
    """Neighbouring requests that share one mean, as those of a conversation do."""

    def shifted(self, by: float) -> PassageTraffic:
        """The same traffic, with another mean acceptance."""
        return replace(self, acceptance=self.acceptance + by)

    def means(self, random: np.random.Generator, num_requests: int) -> list[float]:
        """The mean acceptance of each request's text."""
        mean, variance = self.acceptance, self.spread**2
        strength = mean * (1.0 - mean) / variance - 1.0
        if strength <= 0.0:
            raise ValueError(
                f"spread is {self.spread}; it must be below sqrt(mean (1 - mean)) for the mean "
                f"acceptance {mean}"
            )
        num_sessions = -(-num_requests // self.session_requests)
        drawn = random.beta(strength * mean, strength * (1.0 - mean), num_sessions)
        return [float(one) for one in np.repeat(drawn, self.session_requests)[:num_requests]]


def draw_text(traffic: PassageTraffic, mean: float, random: np.random.Generator) -> list[bool]:
    """Whether a draft of each token would be accepted, shape (output_tokens,)."""
    contrast = min(traffic.contrast, mean, 1.0 - mean)
    ends = random.random(traffic.output_tokens) < 1.0 / traffic.passage_tokens
    is_easy = (np.cumsum(ends) + random.integers(2)) % 2 == 0
    chances = np.where(is_easy, mean + contrast, mean - contrast)
    accepted: list[bool] = (random.random(traffic.output_tokens) < chances).tolist()
    return accepted


def draft_text(text: Sequence[bool], choose_length: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """(requested, accepted) of each step of a request with drafts; the last, cut short, is left
    out. `choose_length` gives the draft length of the next step."""
    start = 0
    while start < len(text):
        length = choose_length()
        run = text[start : start + length]
        accepted = next((at for at, matches in enumerate(run) if not matches), len(run))
        start += accepted + 1
        if start <= len(text) and length:
            yield length, accepted
