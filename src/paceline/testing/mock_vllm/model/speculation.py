"""Scripted speculation: how many draft tokens a step has, and which of them are accepted.

The acceptance rates are those of vLLM's `synthetic_acceptance_rates`: entry j is the probability
that draft tokens 1 to j + 1 are all accepted.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_IGNORED_KEYS = ("method", "model")
_KEYS = ("num_speculative_tokens", "rejection_sample_method", "synthetic_acceptance_rates")


@dataclass(frozen=True, slots=True)
class Speculation:
    """The draft length of every step, and the acceptance of requests that name none."""

    draft_length: int
    rates: tuple[float, ...]
    """Unconditional, (draft_length,)."""

    def __post_init__(self) -> None:
        if self.draft_length < 1:
            raise ValueError(
                f"num_speculative_tokens must be at least 1, got {self.draft_length}; leave "
                "--speculative-config out for a server without speculation."
            )
        check_rates(self.rates, self.draft_length)


def read_speculative_config(document: object) -> Speculation:
    """A Speculation from vLLM's `--speculative-config`; ValueError says what is wrong."""
    if not isinstance(document, Mapping):
        raise ValueError(f"must be a JSON object, got {document!r}.")
    unknown = [name for name in document if name not in (*_KEYS, *_IGNORED_KEYS)]
    if unknown:
        allowed = ", ".join((*_KEYS, *_IGNORED_KEYS))
        raise ValueError(f"{unknown[0]} is unknown; allowed keys are {allowed}.")
    method = document.get("rejection_sample_method")
    if method != "synthetic":
        raise ValueError(
            "rejection_sample_method must be synthetic, since the mock server has no models; "
            f"got {method!r}."
        )
    length = document.get("num_speculative_tokens")
    rates = document.get("synthetic_acceptance_rates")
    if type(length) is not int or not isinstance(rates, list) or not is_list_of_numbers(rates):
        raise ValueError(
            "num_speculative_tokens must be a whole number and synthetic_acceptance_rates a list "
            f"of numbers, got {length!r} and {rates!r}."
        )
    return Speculation(length, tuple(map(float, rates)))


def is_list_of_numbers(value: object) -> bool:
    """Whether this is a list of numbers; true and false are none."""
    return isinstance(value, list) and all(type(entry) in (int, float) for entry in value)


def check_rates(rates: Sequence[float], draft_length: int) -> None:
    """ValueError unless there are at least `draft_length` probabilities that never rise."""
    if len(rates) < draft_length:
        raise ValueError(
            f"synthetic_acceptance_rates must have a rate for each of the {draft_length} draft "
            f"tokens, got {list(rates)}."
        )
    is_falling = all(after <= before for before, after in itertools.pairwise(rates))
    if not all(0.0 <= rate <= 1.0 for rate in rates) or not is_falling:
        raise ValueError(
            "synthetic_acceptance_rates must be probabilities from 0 to 1 that never rise, got "
            f"{list(rates)}."
        )


class DraftVerdicts:
    """The verdicts about the drafts of one sequence.

    Output token i has one random number, whichever step drafts it, so that the same request meets
    the same luck at every draft length.
    """

    __slots__ = ("_conditional", "_draws", "_random")

    def __init__(self, rates: Sequence[float], seed: str) -> None:
        before = (1.0, *rates[:-1])
        self._conditional = [
            rate / last if last else 0.0 for rate, last in zip(rates, before, strict=True)
        ]
        self._random = random.Random(seed)
        self._draws: list[float] = []

    def num_accepted(self, position: int, draft_length: int) -> int:
        """How many drafts of the output tokens from `position` on are accepted.

        >>> DraftVerdicts((1.0, 1.0, 0.0), "seed").num_accepted(5, 3)
        2
        """
        while len(self._draws) < position + draft_length:
            self._draws.append(self._random.random())
        draws = self._draws[position : position + draft_length]
        for depth, draw in enumerate(draws):
            if draw >= self._conditional[depth]:
                return depth
        return draft_length
