"""What the search asks for, and what it gets: rounds of trials on one server."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from paceline.workbench.tune.search.outcome import Outcome
from paceline.workbench.tune.values import Measurement, RestartConfig, Trial


@dataclass(frozen=True, slots=True)
class Round:
    """Trials that are run one after another on a server with this configuration."""

    restart: RestartConfig
    trials: tuple[Trial, ...]
    why: str
    """For the progress line."""


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """The server of a round did not start, or failed during it."""

    reason: str


RoundResult = Sequence[Measurement] | ServerFailure
"""One measurement for each trial, in their order."""
Search = Generator[Round, RoundResult, Outcome]
"""Yields rounds, gets their results, returns the outcome. It depends on the results only."""
