"""The arms of the replay: fixed lengths, two references, and any policy of Paceline.

`K=0` … `K=8` hold a draft length. `sglang-ema` is the rule of SGLang's adaptive speculation, in
`benchmarks.governor.peers`. `clairvoyant` knows every verdict: what no policy can reach. All other
names are policies of `paceline.create_policy`, which see what an engine would show them
(`governed`), and a table of what steps cost. Words after a colon take something away or put
something wrong, in any number:

    goodput                  all that the machine's engine offers (`Machine.mode`)
    goodput:lengths          one draft length for all requests
    goodput:early            the end of drafting, and the number of verified drafts of each request,
                             also where steps are too short for it to pay on a real engine
    goodput:no-classes       the classes of requests are hidden
    goodput:no-table         no table of costs
    goodput:verify+20        the table has 20 % too much for verifying; also verify-20
    goodput:draft+20         the same for drafting
    goodput:cells5           every entry of the table is off by 5 %
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.peers.goodput_confident import POLICY as CONFIDENT
from benchmarks.governor.peers.sglang_ema import POLICY as SGLANG_EMA
from benchmarks.governor.recorded_drafts.governed import GovernedArm
from benchmarks.governor.recorded_drafts.machines import (
    DRAFTING_MODES,
    DraftingMode,
    Machine,
    MeasuredNoise,
    cost_table,
)
from benchmarks.governor.recorded_drafts.recordings import MAX_DRAFT_TOKENS
from benchmarks.governor.recorded_drafts.replay import Arm, Batch, Drafts, StepResult
from paceline import create_policy
from paceline.foundation.capacity.cost_table import CostTable

_MEASURED_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MEASURED_LENGTHS = (0, 1, 2, 4, 8)
"""What a calibration measures at the start of an engine."""
_ERROR = re.compile(r"(verify|draft)([+-]\d+)|(cells)(\d+)")


def fixed_arm(draft_length: int) -> str:
    """The name of the arm that holds this length."""
    return f"K={draft_length}"


def build_arm(name: str, machine: Machine, seed: int) -> Arm:
    """The arm called `name`, with nothing learned yet; ValueError for an unknown name."""
    if name == SGLANG_EMA.name:
        policy = SGLANG_EMA.build(max_draft_length=MAX_DRAFT_TOKENS, parameters={})
        return GovernedArm(policy, machine, MeasuredNoise(seed))
    if name == "clairvoyant":
        return Clairvoyant(machine)
    if name in map(fixed_arm, range(MAX_DRAFT_TOKENS + 1)):
        return FixedLength(int(name.removeprefix("K=")))
    variant = PolicyVariant.parse(name, machine)
    table = variant.table(machine, seed)
    policy = (
        CONFIDENT.build(max_draft_length=MAX_DRAFT_TOKENS, parameters={}, cost_table=table)
        if variant.reads_all_confidences
        else create_policy(variant.policy, max_draft_length=MAX_DRAFT_TOKENS, cost_table=table)
    )
    return GovernedArm(
        policy,
        machine,
        MeasuredNoise(seed),
        mode=variant.mode,
        shows_classes=variant.shows_classes,
    )


@dataclass(frozen=True, slots=True)
class PolicyVariant:
    """A policy and what its arm changes."""

    policy: str
    mode: DraftingMode
    shows_classes: bool = True
    has_table: bool = True
    verify_error: float = 0.0
    draft_error: float = 0.0
    cell_noise: float = 0.0
    reads_all_confidences: bool = False

    @classmethod
    def parse(cls, name: str, machine: Machine) -> PolicyVariant:
        """The variant called `name`; ValueError for a word that is unknown."""
        policy, *words = name.split(":")
        mode, errors = machine.mode, {"verify": 0.0, "draft": 0.0, "cells": 0.0}
        for word in words:
            found = _ERROR.fullmatch(word)
            if found is not None:
                errors[found[1] or found[3]] = int(found[2] or found[4]) / 100.0
            elif word in DRAFTING_MODES:
                mode = word
            elif word not in ("no-classes", "no-table"):
                raise ValueError(
                    f"arm {name!r} has the word {word!r}; it must be one of "
                    f"{', '.join(DRAFTING_MODES)}, no-classes, no-table, verify+N, draft+N, cellsN"
                )
        return cls(
            policy,
            mode,
            shows_classes="no-classes" not in words,
            has_table="no-table" not in words,
            verify_error=errors["verify"],
            draft_error=errors["draft"],
            cell_noise=errors["cells"],
            reads_all_confidences="early" in words,
        )

    def table(self, machine: Machine, seed: int) -> CostTable | None:
        """What this policy is given."""
        if not self.has_table:
            return None
        return cost_table(
            machine,
            _MEASURED_SIZES,
            _MEASURED_LENGTHS,
            verify_error=self.verify_error,
            draft_error=self.draft_error,
            cell_noise=self.cell_noise,
            seed=seed,
        )


class FixedLength:
    """The same length in every step."""

    def __init__(self, draft_length: int) -> None:
        self._draft_length = draft_length

    def choose(self, batch: Batch) -> Drafts:
        return Drafts(self._draft_length, np.full(batch.num_requests, self._draft_length))

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        """Nothing."""


class Clairvoyant:
    """Knows every verdict and the machine: verifies only what will be accepted, and drafts

        argmax over k of tokens(k) - rate * seconds(k)

    with the moving average of its own rate, which makes the steps' choices add up to the best rate
    of the phase.
    """

    _STEP = 0.05

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tokens_per_s = math.nan

    def choose(self, batch: Batch) -> Drafts:
        num_requests = batch.num_requests
        if batch.starts_phase:
            self._tokens_per_s = num_requests / self._machine.step_s(num_requests, 0, 0)
        best, best_value = None, -math.inf
        for length in range(MAX_DRAFT_TOKENS + 1):
            widths = np.minimum(batch.acceptable, length)
            verified = int(widths.sum())
            seconds = self._machine.step_s(num_requests, verified, length)
            value = num_requests + verified - self._tokens_per_s * seconds
            if value > best_value:
                best, best_value = Drafts(length, widths), value
        assert best is not None
        return best

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        rate = float(result.emitted.sum()) / result.seconds
        self._tokens_per_s += self._STEP * (rate - self._tokens_per_s)
