"""Record a simulated phase as the recorder of a real engine would.

The truth is known, so a replay of the recording can be judged. The phase must name its requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.recording.reading import Recording
from paceline.foundation.recording.records import (
    SCHEMA_VERSION,
    CostTableRecord,
    End,
    Header,
    RequestRecord,
    StepBlock,
)
from paceline.foundation.recording.step_cells import StepCells
from paceline.foundation.recording.verdict_counts import VerdictCounts
from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.machines.machine import Disturbance, Drafter, Machine
from paceline.testing.policy_simulator.traffic.phases import Phase, TimedLoop

BLOCK_S = 5.0
_METHODS: dict[Drafter, str] = {
    "keeps_up": "draft_model",
    "rests": "draft_model",
    "stateless": "medusa",
    "ngram": "ngram",
    "ngram_gpu": "ngram_gpu",
}


@dataclass(slots=True)
class _Seen:
    first_s: float
    last_s: float
    verdicts: VerdictCounts = field(default_factory=VerdictCounts)


class _RecordedPolicy:
    """A policy that keeps what it is shown."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cells = StepCells()
        self._block_from_s = 0.0
        self._block_tokens = 0
        self.engine: SimulatedEngine | None = None
        self.seen: dict[int, _Seen] = {}
        self.blocks: list[StepBlock] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        return self._policy.plan(load)

    def observe(self, sample: StepSample) -> None:
        assert self.engine is not None
        assert sample.duration_s is not None
        now_s = self.engine.now_s
        self._policy.observe(sample)
        for number in self.engine.running_requests:
            self.seen.setdefault(number, _Seen(now_s, now_s)).last_s = now_s
        for name, drafted, accepted in zip(
            sample.judged, sample.drafted, sample.accepted, strict=True
        ):
            self.seen[int(name)].verdicts.add(drafted, accepted)
        self._cells.add(
            num_requests=sample.num_requests,
            draft_length=sample.draft_length,
            is_clean=sample.is_clean,
            verified_tokens=sample.verified_draft_tokens,
            prefill_tokens=sample.prefill_tokens,
            context_tokens=sample.context_tokens,
            seconds=sample.duration_s,
        )
        self._block_tokens += sample.num_requests - sample.num_prefilling + sum(sample.accepted)
        if now_s - self._block_from_s >= BLOCK_S:
            self.end_block(now_s)

    def end_block(self, now_s: float) -> None:
        cells = self._cells.take()
        if cells:
            self.blocks.append(
                StepBlock(
                    from_s=self._block_from_s,
                    to_s=now_s,
                    output_tokens=self._block_tokens,
                    cells=cells,
                )
            )
        self._block_from_s, self._block_tokens = now_s, 0


def record_phase(
    machine: Machine,
    policy: Policy,
    phase: Phase,
    *,
    policy_name: str = "fixed",
    seed: int = 0,
    disturbance: Disturbance | None = None,
    graph_sizes: tuple[int, ...] = (),
    cost_table: CostTable | None = None,
) -> tuple[StepLog, Recording]:
    """Run the phase on a new engine; returns its log and its recording.

    `graph_sizes`: those of the machine's cost function, which an engine knows of itself.
    `cost_table`: what it measured at its start; None where it measured nothing.
    """
    recorded = _RecordedPolicy(policy)
    engine = SimulatedEngine(machine, recorded, seed=seed, disturbance=disturbance)
    recorded.engine = engine
    log = engine.run(phase)
    recorded.end_block(engine.now_s)
    header = Header(
        schema_version=SCHEMA_VERSION,
        paceline_version="0",
        policy=policy_name,
        method=_METHODS[machine.drafter],
        max_draft_length=machine.max_draft_length,
        allowed_lengths=machine.captured_lengths,
        drafter_rests=machine.drafter == "rests",
        is_async=machine.is_async,
        max_num_seqs=machine.max_num_seqs,
        token_budget=machine.token_budget,
        prefill_chunk_tokens=machine.prefill_chunk_tokens,
        graph_sizes=graph_sizes,
        cost_table=msgspec.convert(cost_table, CostTableRecord | None, from_attributes=True),
    )
    latest_s = max((seen.last_s for seen in recorded.seen.values()), default=0.0)
    requests = [
        _record(phase, serial, seen, latest_s) for serial, seen in sorted(recorded.seen.items())
    ]
    requests.sort(key=lambda request: request.arrived_s)
    end = End(at_s=engine.now_s, reason="stopped")
    return log, Recording(header, tuple(requests), tuple(recorded.blocks), end)


def _record(phase: Phase, serial: int, seen: _Seen, latest_s: float) -> RequestRecord:
    """Requests are admitted in order, so the serial number of a request is its place."""
    named = phase.requests[serial % len(phase.requests)]
    tried, accepted = seen.verdicts.by_position()
    is_timed = isinstance(phase.load, TimedLoop)
    return RequestRecord(
        category=named.class_name,
        arrived_s=named.arrived_s if is_timed else seen.first_s,
        prompt_tokens=named.prompt_tokens,
        output_tokens=named.output_tokens,
        ended_s=seen.last_s if seen.last_s < latest_s else None,
        asked=seen.verdicts.asked,
        tried=tried,
        accepted=accepted,
    )
