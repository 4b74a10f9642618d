"""Compare a run with the oracle: the best of other runs of the same trace, phase by phase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.load.config import BenchError
from paceline.workbench.bench.trace.figures import TraceFigures

KIND = "paceline bench trace"
_SAME = ("sha256", "acceptance", "load_scale", "time_scale", "seed")
"""Keys of `trace` in which runs must agree to be comparable."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The report of another run."""

    label: str
    rates: Mapping[str, float]
    """Output tokens per second by phase."""


@dataclass(frozen=True, slots=True)
class PhaseComparison:
    """One phase against the oracle."""

    name: str
    oracle: str
    """The label of the best run in this phase."""
    oracle_tokens_per_s: float
    fraction_of_oracle: float


@dataclass(frozen=True, slots=True)
class OracleComparison:
    """A run against the best of the others in each phase."""

    against: tuple[str, ...]
    """The labels of the other runs."""
    phases: tuple[PhaseComparison, ...]
    fraction_of_oracle: float
    """Tokens of the trace, over what the best of each phase yields in the same time."""
    mean_phase_fraction: float
    """The mean of the phases' fractions: phases of little load weigh as much as crowded ones."""
    worst_phase: str
    worst_phase_fraction: float
    best_single: str
    """The run with the largest `fraction_of_oracle` over the same phases."""
    fraction_of_best_single: float


def read_run(path: Path, identity: Mapping[str, Any], phases: Sequence[str]) -> EarlierRun:
    """The run in a report; BenchError unless it is a whole run of the trace with this identity."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise BenchError(f"--against {path}: cannot read it as JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BenchError(f"--against {path} is no report of paceline bench trace --json")
    for key in _SAME:
        other = document["trace"].get(key)
        if other != identity[key]:
            raise BenchError(
                f"--against {path} ran with {key} {other!r} and this run with {identity[key]!r}; "
                "compare runs of one trace with the same settings"
            )
    rates = {
        phase["name"]: phase["output_tokens_per_s"]
        for phase in document["phases"]
        if phase["output_tokens_per_s"] is not None
    }
    missing = [name for name in phases if name not in rates]
    if missing:
        raise BenchError(f"--against {path} has no rate for phase {missing[0]!r}: run it again")
    if not document["valid"]:
        raise BenchError(f"--against {path} is not valid: {document['notes'][0]}")
    return EarlierRun(document["trace"]["label"] or path.stem, rates)


def compare(figures: TraceFigures, others: Sequence[EarlierRun]) -> OracleComparison | None:
    """The comparison; None without other runs, without phases, or when a rate is unknown."""
    measured = [phase for phase in figures.phases if phase.output_tokens_per_s is not None]
    if not others or not measured or len(measured) < len(figures.phases):
        return None
    phases = []
    for phase in measured:
        best = max(others, key=lambda other: other.rates[phase.name])
        rate = best.rates[phase.name]
        phases.append(
            PhaseComparison(
                name=phase.name,
                oracle=best.label,
                oracle_tokens_per_s=rate,
                fraction_of_oracle=(phase.output_tokens_per_s or 0.0) / rate if rate else 1.0,
            )
        )

    def fraction_of_oracle(rates: Mapping[str, float]) -> float:
        """Tokens at these rates over those of the oracle, both in the time of this run."""
        possible = sum(
            c.oracle_tokens_per_s * p.seconds for c, p in zip(phases, measured, strict=True)
        )
        reached = sum(rates[phase.name] * phase.seconds for phase in measured)
        return reached / possible if possible else 1.0

    own = fraction_of_oracle({p.name: p.output_tokens_per_s or 0.0 for p in measured})
    single = max(others, key=lambda other: fraction_of_oracle(other.rates))
    of_single = fraction_of_oracle(single.rates)
    worst = min(phases, key=lambda phase: phase.fraction_of_oracle)
    return OracleComparison(
        against=tuple(other.label for other in others),
        phases=tuple(phases),
        fraction_of_oracle=own,
        mean_phase_fraction=sum(p.fraction_of_oracle for p in phases) / len(phases),
        worst_phase=worst.name,
        worst_phase_fraction=worst.fraction_of_oracle,
        best_single=single.label,
        fraction_of_best_single=own / of_single if of_single else 1.0,
    )
