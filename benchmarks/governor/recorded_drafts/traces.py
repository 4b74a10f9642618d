"""The traces of the evaluation: phases in an order and with lengths that follow from the seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.governor.recorded_drafts.machines import Machine
from benchmarks.governor.recorded_drafts.replay import Phase

TRACES = ("broad", "twelve", "starts")
_LEAST_TOKENS, _TOKENS_BOUND = 60, 151
"""Tokens per request of a phase: as many as an answer of the recorded texts has."""
_START_TOKENS = 40
"""Of a start: about twenty steps."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Phases, and the fixed lengths that the oracle chooses among."""

    phases: tuple[Phase, ...]
    oracle_lengths: tuple[int, ...]
    are_starts: bool = False
    """Whether every phase begins with a new arm, which has learned nothing."""


def build_trace(name: str, machine: Machine, seed: int) -> Trace:
    """The trace called `name`, one of `TRACES`.

    `broad` has 14 phases of one kind of text and three mixed batches; its oracle knows every
    length. `twelve` has the phases of `interleaved_trace.py`, two of them twice, and its lengths.
    `starts` has the first steps of six loads, each in a new process.
    """
    lowest, low, high, _ = machine.loads
    phases: list[tuple[tuple[str, ...], int]]
    phases = [((kind,), n) for n in machine.loads for kind in ("predictable", "code_at_1")]
    phases += [(("code",), lowest), (("code",), high)]
    if name == "broad":
        phases += [
            (("docstring",), low),
            (("prose_at_1",), low),
            (("code_at_0.8",), high),
            (("random_at_1",), lowest),
            (("predictable", "code_at_1"), low),
            (("predictable", "code_at_1"), high),
            (("code", "prose_at_1"), high),
        ]
        lengths: tuple[int, ...] = tuple(range(9))
    elif name == "twelve":
        phases += [(("predictable",), lowest), (("code_at_1",), low)]
        lengths = (0, 2, 4, 8)
    elif name == "starts":
        phases = [(("predictable",), lowest), (("code_at_1",), lowest), (("docstring",), low)]
        phases += [(("code",), high), (("predictable", "code_at_1"), high), (("code_at_1",), high)]
        lengths = tuple(range(9))
    else:
        raise ValueError(f"trace is {name!r}; it must be one of {', '.join(TRACES)}")
    random = np.random.default_rng(seed)
    shuffled = [
        Phase(
            kinds=phases[index][0],
            num_requests=phases[index][1],
            tokens_per_request=(
                _START_TOKENS
                if name == "starts"
                else int(random.integers(_LEAST_TOKENS, _TOKENS_BOUND))
            ),
            seed=seed * 100 + index,
        )
        for index in random.permutation(len(phases)).tolist()
    ]
    return Trace(tuple(shuffled), lengths, are_starts=name == "starts")
