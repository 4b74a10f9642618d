"""Plans of many models, machines and loads, made in process and without the command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.planning.decisions.candidate import Candidate, Demand, plan_candidate
from paceline.foundation.planning.decisions.fleet import Bill
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.decisions.planner import Plan, make_plan
from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.foundation.planning.values import (
    AcceptanceRange,
    Drafter,
    EngineLimits,
    HardwareEntry,
    Load,
    Placement,
    PlannedModel,
    Slo,
    no_drafter,
)

CATALOGUE = load_catalogue()
MACHINE = Machine(2, 16 * 1024**3, frozenset({"avx512f", "avx512_vnni"}))

PAIRS = (
    ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"),
    ("Qwen/Qwen3-14B-FP8", "Qwen/Qwen3-0.6B-FP8"),
    ("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"),
    ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
    ("meta-llama/Meta-Llama-3-70B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
    ("meta-llama/Llama-3.1-8B-Instruct", "ngram"),
)
GPUS = (("l4", 1), ("l40s", 4), ("h100", 1), ("h100", 2), ("h200", 8), ("b200", 1), ("a100", 4))
LOADS = (
    (Load(), Slo()),
    (Load(prompt_tokens=200, output_tokens=800), Slo(tpot_ms=30.0)),
    (Load(prompt_tokens=4000, output_tokens=200), Slo(ttft_ms=2000.0)),
    (Load(concurrency=4), Slo()),
    (Load(requests_per_day=5e5), Slo(ttft_ms=1500.0, tpot_ms=50.0)),
    (Load(requests_per_day=2e6, regions=2), Slo()),
)
ACCEPTANCES = (0.3, 0.68, 0.9)


@dataclass(frozen=True, slots=True)
class Cell:
    """A model with a drafter, on a machine, under a load."""

    demand: Demand
    entry: HardwareEntry
    num_gpus: int

    @property
    def name(self) -> str:
        """For messages."""
        demand = self.demand
        known = demand.drafter.acceptance
        return (
            f"{demand.model.name} with {demand.drafter.label} at "
            f"{known and known.expected.per_token}, {self.num_gpus} x "
            f"{self.entry.hardware.name}, {demand.load}, {demand.slo}"
        )

    def plan(self) -> Plan:
        """What `paceline plan` recommends."""
        return make_plan(self.demand, self.entry, self.num_gpus, None)

    def rivals(self) -> Iterator[Candidate]:
        """With the drafter and without, at every power of two, each planned alone."""
        for size, drafter in product((1, 2, 4, 8), (self.demand.drafter, no_drafter())):
            if self.num_gpus % size:
                continue
            placement = Placement(self.entry.hardware, self.num_gpus, size)
            try:
                yield plan_candidate(replace(self.demand, drafter=drafter), self.entry, placement)
            except ValueError:
                continue


def cells() -> Iterator[Cell]:
    """Pairs, machines, loads and acceptances; what no machine computes is left out."""
    for (target, draft), (gpu, num_gpus), (load, slo) in product(PAIRS, GPUS, LOADS):
        entry = CATALOGUE.find(gpu, MACHINE, None)
        model = find_model(target, CATALOGUE)
        number = len(target) + len(gpu) + num_gpus + load.prompt_tokens
        acceptance = ACCEPTANCES[number % len(ACCEPTANCES)]
        drafter = choose_drafter(
            draft, target, CATALOGUE, dtype=model.shape.dtype, acceptance=acceptance
        )
        yield Cell(demand_of(model, drafter, load, slo), entry, num_gpus)


def demand_of(model: PlannedModel, drafter: Drafter, load: Load, slo: Slo) -> Demand:
    """With vLLM's defaults."""

    def limits_for(hardware: Hardware) -> EngineLimits:
        return engine_limits(LimitSettings(), hardware, model, load)

    return Demand(model, drafter, load, slo, Bill(), limits_for)


def accepting(drafter: Drafter, per_token: float) -> Drafter:
    """The drafter with a known acceptance."""
    known = Acceptance(per_token)
    return replace(drafter, acceptance=AcceptanceRange(known, known, known))
