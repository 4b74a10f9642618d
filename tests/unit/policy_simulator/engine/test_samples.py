"""The simulator shows a policy the samples that the engine's observer would have made.

Each simulated step is retold to a real `StepObserver` in vLLM's words, and both samples compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.observer import StepObserver
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.governor.values import EngineLoad, StepSample
from paceline.testing.policy_simulator.engine.batch import Bools, Ints
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.simulated_step import SimulatedStep
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.traffic.phases import OpenLoop, Phase
from unit.engine.scheduler.test_observer import clock_at, scheduler_of
from unit.policy_simulator.setups import Recorder, linear, machine, text


@dataclass(eq=False)
class Output:
    """vLLM's SchedulerOutput, as far as it is read."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]]

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


@dataclass
class Request:
    """vLLM's Request, as far as it is read."""

    num_computed_tokens: int = 0
    num_prompt_tokens: int = 0
    num_stale_output_tokens: int = 0
    status: int = 2

    def is_finished(self) -> bool:
        return False


class RetoldEngine(SimulatedEngine):
    """Reports every step to an observer as well."""

    def __init__(self, on: Machine, policy: Recorder) -> None:
        super().__init__(on, policy)
        abilities = EngineAbilities(8, "draft_model", drafter_rests=on.drafter == "rests")
        self.observer = StepObserver(abilities, RequestLedger())
        self.retold_loads: list[EngineLoad] = []
        self.retold_samples: list[StepSample] = []
        self._outputs: dict[int, Output] = {}

    def _schedule(self, ceiling: int) -> SimulatedStep | None:
        step = super()._schedule(ceiling)
        if step is None:
            return None
        names = step.serials.astype(str).tolist()
        output = Output(
            dict(zip(names, step.scheduled.tolist(), strict=True)),
            {
                name: [-1] * count
                for name, count in zip(names, step.verified.tolist(), strict=True)
                if count
            },
        )
        before = self._batch.computed[step.slots] - step.scheduled
        prompts = [self._batch._arrivals[slot].prompt_tokens for slot in step.slots.tolist()]
        requests = {
            name: Request(count, prompt)
            for name, count, prompt in zip(names, before.tolist(), prompts, strict=True)
        }
        load = self.observer.measure_load(
            output, scheduler_of(requests, num_waiting=step.load.num_waiting), ceiling=ceiling
        )
        with clock_at(step.scheduled_s):
            self.observer.begin(SimpleNamespace(running=names))
        self.observer.step_scheduled(output, load, step.draft_length)
        self.retold_loads.append(load)
        self._outputs[id(step)] = output
        return step

    def _show(
        self,
        step: SimulatedStep,
        accepted: Ints,
        remaining: Bools,
        num_ended: int,
        started_s: float,
    ) -> None:
        super()._show(step, accepted, remaining, num_ended, started_s)
        rows = zip(
            step.serials.astype(str).tolist(),
            step.verified.tolist(),
            accepted.tolist(),
            remaining.tolist(),
            strict=True,
        )
        requests: dict[str, Any] = {}
        drafts = []
        for name, verified, accepted_here, goes_on in rows:
            if goes_on:
                requests[name] = Request()
            if verified:
                drafts.append((name, verified, accepted_here))
        scheduler = scheduler_of(requests, has_more_work=self._is_back_to_back)
        with clock_at(self._now_s):
            finished = self.observer.step_finished(self._outputs.pop(id(step)), scheduler)
        assert finished is not None
        self.retold_samples.append(
            self.observer.make_sample(finished, requests, verified=drafts, confidences={}, kept={})
        )
        self.observer.settle(finished.noted, requests)
        names = step.serials.astype(str).tolist()
        self.observer.note_drafts(names, has_any=step.draft_length > 0 and not step.is_behind)


@pytest.mark.parametrize(
    ("drafter", "is_async"),
    [("rests", False), ("keeps_up", False), ("keeps_up", True), ("ngram", False)],
)
def test_samples_are_those_of_the_observer(drafter: Any, is_async: bool) -> None:
    """Prompts of 1 to 60 tokens in chunks, ends, pauses, bursts, lengths from 0 to 5 in turn."""
    match = (0.3, 0.8) if drafter == "ngram" else (1.0, 1.0)
    kind = text(0.7, 0.6, prompt=(1, 60), output=(1, 30), match=match)
    on = machine(drafter, is_async=is_async, token_budget=24, max_num_seqs=12, cost=linear())
    policy = Recorder(3, 3, 0, 0, 5, 1, 2)
    engine = RetoldEngine(on, policy)
    engine.run(Phase("open", OpenLoop(3.0, 6, 4.0), (kind,), duration_s=20.0))
    assert len(policy.samples) > 200
    assert policy.loads == engine.retold_loads
    for shown, retold in zip(policy.samples, engine.retold_samples, strict=True):
        assert retold.duration_s == pytest.approx(shown.duration_s)
        assert retold == replace(shown, duration_s=retold.duration_s)
    assert any(not s.is_clean and s.prefill_tokens == 0 for s in policy.samples)
    assert any(len(s.drafted) < s.num_requests for s in policy.samples if s.requested_draft_length)
    assert any(0 < s.num_prefilling < s.num_requests for s in policy.samples)
