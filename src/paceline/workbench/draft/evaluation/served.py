"""Compare acceptance measured offline with what a server counted, from a report of `bench run`."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.models.acceptance import AcceptanceFigures
from paceline.foundation.models.values import DraftError, Sampling

TOLERANCE = 0.02
"""Largest difference of a fraction that counts as equal."""
_KIND = "paceline bench run"
_LENGTH_TOLERANCE = 0.02
"""Drafts are shorter than the maximum only where an answer reaches the end of the context."""


@dataclass(frozen=True, slots=True)
class ServedFigure:
    """One figure offline and served."""

    name: str
    offline: float
    served: float
    offline_error: float = 0.0
    """Half the width of the offline figure's 95 % interval."""

    @property
    def difference(self) -> float:
        """Served minus offline."""
        return self.served - self.offline

    @property
    def is_equal(self) -> bool:
        """Whether the difference is within TOLERANCE."""
        return abs(self.difference) <= TOLERANCE

    @property
    def may_be_noise(self) -> bool:
        """Whether as many answers on both sides may differ this much by chance."""
        return abs(self.difference) <= TOLERANCE + math.sqrt(2) * self.offline_error


@dataclass(frozen=True, slots=True)
class ServedComparison:
    """The fractions of one server's report beside the offline ones."""

    label: str
    """Of the sampling."""
    figures: tuple[ServedFigure, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every fraction is within TOLERANCE."""
        return all(figure.is_equal for figure in self.figures)

    @property
    def is_undecided(self) -> bool:
        """Whether fractions differ by more than TOLERANCE, but not by more than chance explains."""
        return not self.is_equal and all(figure.may_be_noise for figure in self.figures)


def read_report(path: Path) -> Mapping[str, Any]:
    """The JSON document of `paceline bench run`; DraftError for any other file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DraftError(f"cannot read the report {path}: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise DraftError(
            f"{path} is not a report of {_KIND}; write one with paceline bench run --json FILE"
        )
    return document


def check_report(
    document: Mapping[str, Any], samplings: Collection[Sampling], max_draft_length: int
) -> Sampling:
    """The sampling that the report is of; DraftError if its server drafted otherwise than what is
    measured, or counted nothing."""
    try:
        config, counted = document["config"], document["speculation"]
        temperature, top_p = config["temperature"], config.get("top_p") or 1.0
        per_position = counted["accepted_per_position_fraction"]
        num_drafts, num_drafted = counted["num_drafts"], counted["drafted_tokens"]
        note, _ = counted["note"], counted["acceptance_rate"]
    except (KeyError, TypeError) as error:
        raise DraftError(f"the report of {_KIND} is of another version: {error}") from error
    match = [
        sampling
        for sampling in samplings
        if sampling.temperature == temperature and (sampling.is_greedy or sampling.top_p == top_p)
    ]
    if not match:
        restriction = f" --top-p {top_p:g}" if temperature else ""  # greedy answers follow none
        measured = ", ".join(f"{one.temperature:g} (top-p {one.top_p:g})" for one in samplings)
        raise DraftError(
            f"the report was served at temperature {temperature} (top-p {top_p:g}), and acceptance "
            f"is measured at {measured}; add --temperature {temperature}{restriction}"
        )
    if not num_drafts or not per_position:
        reason = note or "no accepted tokens by position"
        raise DraftError(f"the report has no speculation counters to compare with: {reason}")
    if any(warning.get("id") == "other_traffic" for warning in document.get("warnings") or ()):
        raise DraftError(
            "the counters of the report include other clients, so that its acceptance is not that "
            "of its prompts; measure again while nothing else uses the server"
        )
    served_length = num_drafted / num_drafts
    if abs(served_length - max_draft_length) > _LENGTH_TOLERANCE * max_draft_length:
        raise DraftError(
            f"the server drafted {served_length:.2f} tokens per draft, and acceptance is measured "
            f"at {max_draft_length}; serve with paceline serve --policy fixed --draft-length-max "
            f"{max_draft_length}, or set --max-draft-length"
        )
    return match[0]


def compare_with_served(
    document: Mapping[str, Any],
    figures: Mapping[Sampling, AcceptanceFigures],
    max_draft_length: int,
) -> ServedComparison:
    """The offline figures of the report's temperature beside those served. DraftError as from
    `check_report`."""
    sampling, counted = check_report(document, figures, max_draft_length), document["speculation"]
    per_position = counted["accepted_per_position_fraction"]
    offline = figures[sampling]
    rows = [("acceptance_rate", offline.acceptance_rate, counted["acceptance_rate"])]
    rows += [
        (f"accepted_at_position_{number}", estimate, served)
        for number, (estimate, served) in enumerate(
            zip(offline.accepted_per_position_fraction, per_position, strict=False), start=1
        )
    ]
    compared = (
        ServedFigure(name, estimate.value, served, (estimate.high - estimate.low) / 2)
        for name, estimate, served in rows
    )
    return ServedComparison(sampling.label, tuple(compared))
