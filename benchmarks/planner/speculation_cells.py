"""Measured cells of draft lengths against no speculation, read from raw results.

A cell is a load and a draft length of one drafter. Its acceptance is that which gives the accepted
tokens of all draft lengths measured under the load, so no cell predicts itself; an n-gram lookup
also has the share of steps in which it proposed a draft.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.governor.interleaved.phases import parse_phase
from paceline.foundation.capacity.speculation import Acceptance, tokens_per_step

SHORT_CONTEXT_TOKENS = 150
"""Of the bundled prompts, 30 to 90 tokens, and half of an answer."""
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Cell:
    """One draft length under one load."""

    phase: str
    requests: int
    context_tokens: int
    draft_length: int
    acceptance: Acceptance
    ratios: tuple[float, ...]
    """Tokens per second over those of an engine without speculation, by repeat."""

    @property
    def gain(self) -> float:
        """Mean over the repeats."""
        return sum(self.ratios) / len(self.ratios) - 1

    @property
    def is_settled(self) -> bool:
        """Whether all repeats agree that speculation gains, or that it loses."""
        return min(self.ratios) > 1 or max(self.ratios) < 1


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """Drafts of one length, and what was accepted of them."""

    draft_length: int
    num_drafts: float
    accepted_tokens: float


def interleaved_cells(document: Mapping[str, Any]) -> Iterator[Cell]:
    """The cells of a result of `benchmarks/governor/interleaved_trace.py`."""
    plan, runs = document["plan"], document["runs"]
    lengths = _fixed_lengths(plan["arms"])
    for name in dict.fromkeys(plan["phases"]):
        phase = parse_phase(name)
        of_phase = [run for run in runs if run["phase"] == name]
        plain = _rates(of_phase, "none")
        counts = [_interleaved_counts(of_phase, length) for length in lengths]
        acceptance = Acceptance(fitted_acceptance(counts))
        for length in lengths:
            rates = _rates(of_phase, f"K={length}")
            yield Cell(
                name,
                phase.requests,
                plan["context_tokens"] if phase.kind == "long" else SHORT_CONTEXT_TOKENS,
                length,
                acceptance,
                tuple(rates[repeat] / plain[repeat] for repeat in sorted(plain)),
            )


def trace_cells(document: Mapping[str, Any], *, is_lookup: bool) -> Iterator[Cell]:
    """The cells of a result of 2026-11-21, when each arm ran the whole trace on a served engine.

    `is_lookup` says that the drafter does not propose in every step.
    """
    plan = document["plan"]
    lengths = _fixed_lengths(plan["arms"])
    runs = {(run["arm"], run["repeat"]): run for run in document["runs"]}
    repeats = sorted({repeat for _, repeat in runs})
    complete = [r for r in repeats if all((arm, r) in runs for arm in plan["arms"])]
    for number, phase in enumerate(plan["phases"]):
        counts, steps = [], 0.0
        for length in lengths:
            drafts = accepted = 0.0
            for repeat in complete:
                run = runs[f"K={length}", repeat]
                drafts += _during(run, number, "drafts")
                accepted += _during(run, number, "accepted_tokens")
                steps += run["phases"][number]["tokens"]
            counts.append(DraftCounts(length, drafts, accepted))
            steps -= accepted  # Each step of a request yields one token and the accepted ones.
        proposed = sum(count.num_drafts for count in counts) / steps
        acceptance = Acceptance(fitted_acceptance(counts), min(1.0, proposed) if is_lookup else 1.0)
        for length in lengths:
            yield Cell(
                phase["name"],
                phase["concurrency"],
                plan["context_tokens"] if phase["is_long"] else SHORT_CONTEXT_TOKENS,
                length,
                acceptance,
                tuple(
                    runs[f"K={length}", repeat]["phases"][number]["tokens"]
                    / runs["none", repeat]["phases"][number]["tokens"]
                    for repeat in complete
                ),
            )


def fitted_acceptance(counts: Sequence[DraftCounts]) -> float:
    """The acceptance per token with which the drafts yield the accepted tokens, all together."""
    accepted = sum(count.accepted_tokens for count in counts)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        expected = sum(
            count.num_drafts * (tokens_per_step(Acceptance(middle), count.draft_length) - 1)
            for count in counts
        )
        low, high = (middle, high) if expected < accepted else (low, middle)
    return low


def _fixed_lengths(arms: Sequence[str]) -> list[int]:
    """The draft lengths above 0 among the arms."""
    lengths = [int(arm[2:]) for arm in arms if arm.startswith("K=")]
    return [length for length in lengths if length]


def _rates(runs: Sequence[Mapping[str, Any]], arm: str) -> dict[int, float]:
    """Tokens per second by repeat."""
    tokens: dict[int, float] = {}
    seconds: dict[int, float] = {}
    for run in runs:
        if run["arm"] == arm:
            tokens[run["repeat"]] = tokens.get(run["repeat"], 0) + run["tokens"]
            seconds[run["repeat"]] = seconds.get(run["repeat"], 0.0) + run["seconds"]
    return {repeat: tokens[repeat] / seconds[repeat] for repeat in tokens}


def _interleaved_counts(runs: Sequence[Mapping[str, Any]], length: int) -> DraftCounts:
    """Of the steps that verify drafts and compute no prompt."""
    drafts = accepted = 0.0
    for run in runs:
        if run["arm"] != f"K={length}":
            continue
        columns = run["steps"]
        for tokens, requests, drafted, prompt in zip(
            columns["tokens"],
            columns["requests"],
            columns["drafted"],
            columns["prompt_tokens"],
            strict=True,
        ):
            if drafted and not prompt:
                drafts += drafted / length
                accepted += tokens - requests
    return DraftCounts(length, drafts, accepted)


def _during(run: Mapping[str, Any], number: int, column: str) -> float:
    """The growth of a counter of the governor over one phase."""
    seconds = [phase["seconds"] for phase in run["phases"]]
    times, values = run["governor"]["t_s"], run["governor"][column]
    start_s = sum(seconds[:number])

    def at(time_s: float) -> float:
        return float(values[max(0, bisect_right(times, time_s) - 1)])

    return at(start_s + seconds[number]) - at(start_s)
