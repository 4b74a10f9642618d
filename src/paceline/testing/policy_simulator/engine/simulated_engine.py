"""A serving engine in virtual time that steps a policy, with known acceptance and cost.

Continuous batching as in vLLM's scheduler: running requests first, in order, each with one token
and its drafts or with a chunk of its prompt, within a token budget; then waiting ones, up to
`max_num_seqs`. The policy plans after the step is scheduled; its plan is drafted at the step's end
and verified in the next step. The samples equal those that
`paceline.runtime.engine.scheduler.observer` makes of the same steps. Under asynchronous scheduling
a step is scheduled while the one before it runs: its sample and its tokens come one step later, and
a request that ends unexpectedly is still computed in one more step.

Left out: preemption (the KV cache is assumed large enough), prefix caching, structured output,
and all time between two steps.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.values import EngineLoad, StepSample
from paceline.testing.policy_simulator.engine.batch import Bools, Ints, RequestBatch, uniform_tokens
from paceline.testing.policy_simulator.engine.simulated_step import SimulatedStep
from paceline.testing.policy_simulator.engine.step_log import LogWriter, StepLog
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.arrivals import Arrival, Arrivals
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop, Phase


class SimulatedEngine:
    """Runs one policy through phases. Deterministic for a seed; keeps its state between phases."""

    def __init__(
        self,
        machine: Machine,
        policy: Policy,
        *,
        seed: int = 0,
        disturbance: Disturbance | None = None,
    ) -> None:
        self._machine = machine
        self._policy = policy
        self._seed = seed
        self._disturbance = Disturbance() if disturbance is None else disturbance
        self._random = np.random.default_rng([seed, 2**33])
        self._batch = RequestBatch(machine.max_num_seqs, machine.max_draft_length)
        self._running = np.zeros(0, dtype=np.int64)
        self._num_prefilling = 0
        self._ones = np.ones(machine.max_num_seqs, dtype=np.int64)
        self._waiting: deque[Arrival] = deque()
        self._in_flight: deque[SimulatedStep] = deque()
        self._now_s = 0.0
        self._is_back_to_back = False
        self._num_phases = 0
        self._sizes: set[tuple[int, int, int]] = set()

    @property
    def now_s(self) -> float:
        """Virtual seconds since the engine started."""
        return self._now_s

    @property
    def num_waiting(self) -> int:
        """Requests that have arrived and were not scheduled yet."""
        return len(self._waiting)

    @property
    def running_requests(self) -> list[int]:
        """Numbers of the requests in the engine that were scheduled; they count admissions."""
        numbers: list[int] = self._batch.serial[self._running].tolist()
        return numbers

    def run(self, phase: Phase, *, ceiling: int | None = None) -> StepLog:
        """Serve the phase to its end; `ceiling` is the operator's, the machine's where None.

        ValueError when the policy plans outside of 0 to the ceiling.
        """
        self._check(phase)
        self._batch.enter(phase)
        if isinstance(phase.load, ClosedLoop) and phase.load.hangs_up:
            self._cancel_beyond(phase.load.first)
        start_s = self._now_s
        end_s = None if phase.duration_s is None else start_s + phase.duration_s
        arrivals = Arrivals(phase, start_s=start_s, seed=self._seed, phase_number=self._num_phases)
        self._num_phases += 1
        ceiling = self._machine.max_draft_length if ceiling is None else ceiling
        log = LogWriter(phase)
        depth = 2 if self._machine.is_async else 1
        while self._continues(phase, end_s, log):
            num_in_engine = len(self._running) + len(self._waiting)
            self._waiting.extend(arrivals.due(self._now_s, num_in_engine))
            while len(self._in_flight) < depth:
                step = self._schedule(ceiling)
                if step is None:
                    break
                self._in_flight.append(step)
            if self._in_flight:
                self._finish(self._in_flight.popleft(), log)
            elif not self._wait(arrivals, end_s):
                break
        self._waiting.extend(arrivals.remaining())
        return log.finish(self._now_s - start_s)

    def _continues(self, phase: Phase, end_s: float | None, log: LogWriter) -> bool:
        if end_s is not None:
            return self._now_s < end_s
        if phase.num_steps is not None:
            return len(log.steps) < phase.num_steps
        return log.ended_tokens < (phase.output_tokens or 0)

    def _check(self, phase: Phase) -> None:
        needs_ngram = [kind.name for kind in phase.classes if not kind.truth.always_offers]
        if needs_ngram and self._machine.drafter not in ("ngram", "ngram_gpu", "none"):
            raise ValueError(
                f"class {needs_ngram[0]!r} has a match_start or match_stay below 1, which drafter "
                f"{self._machine.drafter!r} does not support; use a machine with an n-gram drafter"
            )

    def _cancel_beyond(self, num_kept: int) -> None:
        """Cancel all requests but the oldest `num_kept`; a step under way still computes them."""
        while len(self._waiting) > max(num_kept - len(self._running), 0):
            self._waiting.pop()
        self._batch.release(self._running[num_kept:])
        self._running = self._running[:num_kept]
        self._num_prefilling = int(np.count_nonzero(self._batch.prompt_left[self._running]))

    def _wait(self, arrivals: Arrivals, end_s: float | None) -> bool:
        """Idle until something arrives or the phase ends; False when neither is to come."""
        next_s = arrivals.next_s(self._now_s)
        if next_s is None and end_s is None:
            return False
        times_s = [time_s for time_s in (next_s, end_s) if time_s is not None]
        self._now_s = max(self._now_s, min(times_s))
        return True

    def _schedule(self, ceiling: int) -> SimulatedStep | None:
        """Schedule the next step and let the policy plan; None when there are no requests."""
        batch, machine = self._batch, self._machine
        slots, tokens = self._share_budget()
        if len(slots) == 0:
            return None
        verified, emits = self._split(slots, tokens)
        num_verified = int(np.add.reduce(verified))
        prefill_tokens = int(np.add.reduce(tokens)) - len(slots) - num_verified
        num_emitting = int(np.add.reduce(emits))
        load = EngineLoad(
            num_requests=len(slots),
            context_tokens=int(np.add.reduce(batch.computed[slots])),
            prefill_tokens=prefill_tokens,
            num_waiting=len(self._waiting),
            max_draft_length=ceiling,
            # The observer looks for them only where there are tokens beyond one per request.
            num_prefilling=len(slots) - num_emitting if prefill_tokens else 0,
            allowed_lengths=machine.captured_lengths,
        )
        plan = self._policy.plan(load)
        length = plan.draft_length
        if not 0 <= length <= ceiling:
            raise ValueError(
                f"the policy planned {length} draft tokens; it must be from 0 to {ceiling}"
            )
        length = load.longest_allowed(length)  # as the engine's controller does
        batch.computed[slots] += tokens
        batch.in_flight[slots] += emits
        batch.drafts[slots] = emits * length if machine.is_async else 0
        catch_up_tokens, is_behind = self._catch_up(slots, length)
        step = SimulatedStep(
            scheduled_s=self._now_s,
            slots=slots,
            serials=batch.serial[slots],
            scheduled=tokens,
            verified=verified,
            num_verified=num_verified,
            emits=emits,
            load=load,
            requested=batch.planned[slots],
            draft_length=length,
            catch_up_tokens=catch_up_tokens,
            is_behind=is_behind,
        )
        batch.planned[slots] = np.where(emits, length, -1) if length and not is_behind else 0
        return step

    def _split(self, slots: Ints, tokens: Ints) -> tuple[Ints, Ints]:
        """For each request: how many of its tokens are drafts, and whether it yields output (1 or
        0)."""
        if self._num_prefilling == 0:
            return tokens - 1, self._ones[: len(slots)]
        prompt_left = self._batch.prompt_left[slots]
        is_prefill = prompt_left > 0
        left = np.where(is_prefill, prompt_left - tokens, 0)
        self._batch.prompt_left[slots] = left
        self._num_prefilling -= int(np.count_nonzero(is_prefill & (left == 0)))
        return np.where(is_prefill, 0, tokens - 1), (left == 0).astype(np.int64)

    def _catch_up(self, slots: Ints, length: int) -> tuple[int, bool]:
        """How many missed tokens a resting draft model computes, and whether some are left."""
        if self._machine.drafter != "rests" or length == 0:
            return 0, False
        missed = self._batch.missed[slots]
        left = np.cumsum(missed) - self._machine.token_budget
        self._batch.missed[slots] = np.clip(left, 0, missed)
        return int(missed.sum() - self._batch.missed[slots].sum()), bool(left[-1] > 0)

    def _share_budget(self) -> tuple[Ints, Ints]:
        """Slots and token counts of the next step; admits requests from the queue."""
        batch, machine = self._batch, self._machine
        slots = self._running
        if machine.is_async:
            # A request that a step under way is certain to end needs no further step.
            slots = slots[batch.output_left[slots] > batch.in_flight[slots]]
        tokens = batch.drafts[slots] + 1
        if self._num_prefilling:
            prompt_left = batch.prompt_left[slots]
            chunks_left = np.minimum(prompt_left, machine.max_prompt_tokens)
            tokens = np.where(prompt_left > 0, chunks_left, tokens)
        left = machine.token_budget - int(np.add.reduce(tokens))
        if left < 0:
            before = np.cumsum(tokens) - tokens
            tokens = np.clip(machine.token_budget - before, 0, tokens)
            slots, tokens = slots[tokens > 0], tokens[tokens > 0]
        admitted: list[int] = []
        chunks: list[int] = []
        num_free = machine.max_num_seqs - len(self._running)
        while left > 0 and self._waiting and len(admitted) < num_free:
            arrival = self._waiting.popleft()
            admitted.append(batch.admit(arrival))
            chunks.append(min(arrival.prompt_tokens, machine.max_prompt_tokens, left))
            left -= chunks[-1]
        if admitted:
            self._num_prefilling += len(admitted)
            self._running = np.append(self._running, admitted)
            slots, tokens = np.append(slots, admitted), np.append(tokens, chunks)
        return slots, tokens

    def _finish(self, step: SimulatedStep, log: LogWriter) -> None:
        """Advance the clock by the step, hand out its tokens, and pass its sample to the policy."""
        batch, machine = self._batch, self._machine
        slots = step.slots
        alive = batch.serial[slots] == step.serials
        accepted = batch.accepted(slots, step.verified)
        if machine.drafter == "ngram_gpu":
            accepted[batch.matched[slots] == 0.0] = 0  # verified, but only to fill the slots
        outputs = np.minimum(step.emits * (accepted + 1), batch.output_left[slots]) * alive
        ended = alive & (step.emits > 0) & (outputs == batch.output_left[slots])
        batch.output_left[slots] -= outputs
        remaining = alive & ~ended
        if np.count_nonzero(ended):
            self._running = self._running[~np.isin(self._running, slots[ended])]
            batch.release(slots[ended])
        kept = slots[remaining]
        batch.computed[kept] -= (step.verified - accepted)[remaining]
        batch.in_flight[kept] -= step.emits[remaining]
        batch.advance(kept, outputs[remaining])
        length = 0 if step.is_behind else step.draft_length
        if machine.drafter == "rests" and length == 0:
            batch.missed[kept] += (step.scheduled - step.verified + accepted)[remaining]
        self._propose(kept[outputs[remaining] > 0], outputs[remaining & (outputs > 0)], length)
        expected_s = self._expected_s(step)
        started_s = self._now_s if self._is_back_to_back else step.scheduled_s
        self._now_s += self._disturbance.disturb(
            expected_s, self._now_s, self._random, is_first=self._is_first_of_its_size(step)
        )
        self._hand_out(slots[outputs > 0], slots[ended], log)
        self._show(step, accepted, remaining, int(np.count_nonzero(ended)), started_s)
        log.steps.append(
            (
                self._now_s - started_s,
                expected_s,
                step.draft_length,
                step.requested_draft_length,
                len(slots),
                int(np.add.reduce(outputs)),
                step.num_verified,
                int(np.add.reduce(accepted[alive])),
                step.load.prefill_tokens,
                step.catch_up_tokens,
            )
        )

    def _is_first_of_its_size(self, step: SimulatedStep) -> bool:
        size = (step.draft_length, len(step.slots), step.num_verified)
        num_sizes = len(self._sizes)
        self._sizes.add(size)
        return len(self._sizes) > num_sizes

    def _expected_s(self, step: SimulatedStep) -> float:
        shape = StepShape(
            num_requests=len(step.slots),
            verified_draft_tokens=step.num_verified,
            prefill_tokens=step.load.prefill_tokens,
            context_tokens=step.load.context_tokens,
            draft_passes=0 if step.is_behind else self._machine.draft_passes(step.draft_length),
            catch_up_tokens=step.catch_up_tokens,
            tokens_per_request=uniform_tokens(step.scheduled, step.verified),
        )
        return self._machine.cost.step_s(shape)

    def _hand_out(self, slots: Ints, ended: Ints, log: LogWriter) -> None:
        """Log each request's wait for its output, and the time per output token of those that
        ended with it."""
        batch, now_s = self._batch, self._now_s
        last_s = batch.last_output_s[slots]
        is_first = np.isnan(last_s)
        log.waits.append(now_s - last_s[~is_first])
        if np.count_nonzero(is_first):
            firsts = slots[is_first]
            log.firsts.append(now_s - batch.arrived_s[firsts])
            batch.first_output_s[firsts] = now_s
        batch.last_output_s[slots] = now_s
        log.ended_tokens += int(np.add.reduce(batch.output_tokens[ended]))
        with_rate = ended[batch.output_tokens[ended] > 1]
        if len(with_rate):
            took_s = now_s - batch.first_output_s[with_rate]
            log.paces.append(took_s / (batch.output_tokens[with_rate] - 1))

    def _propose(self, slots: Ints, emitted: Ints, length: int) -> None:
        """Let the drafter draft for requests that have just received output."""
        batch, machine = self._batch, self._machine
        matches = self._ones[: len(slots)]
        if machine.looks_ngrams_up:
            matches = batch.match(slots, emitted)
        if not machine.is_async:  # asynchronous scheduling has set placeholders
            batch.drafts[slots] = length * matches if machine.drafter == "ngram" else length

    def _show(
        self,
        step: SimulatedStep,
        accepted: Ints,
        remaining: Bools,
        num_ended: int,
        started_s: float,
    ) -> None:
        """Pass the sample of the step to the policy, as the observer would make it."""
        has_rested = bool(np.count_nonzero(step.requested == 0))
        catches_up = self._machine.drafter == "rests" and step.draft_length > 0 and has_rested
        judged = remaining & ((step.verified > 0) | ((step.scheduled == 1) & (step.requested > 0)))
        of_judged = step.requested[judged]
        requested = int(of_judged.max(initial=0))
        is_uniform = bool(np.logical_and.reduce(of_judged == requested))
        load = step.load
        is_clean = self._is_back_to_back
        self._is_back_to_back = bool(self._waiting or len(self._running))
        self._policy.observe(
            StepSample(
                num_requests=load.num_requests,
                requested_draft_length=requested,
                drafted=tuple(step.verified[judged].tolist()),
                accepted=tuple(accepted[judged].tolist()),
                verified_draft_tokens=step.num_verified,
                draft_length=step.draft_length,
                prefill_tokens=load.prefill_tokens,
                context_tokens=load.context_tokens,
                duration_s=self._now_s - started_s,
                is_clean=is_clean and not catches_up,
                catches_up=catches_up,
                judged=tuple(map(str, step.serials[judged].tolist())),
                requested=() if is_uniform else tuple(of_judged.tolist()),
                num_ended=num_ended,
                num_prefilling=load.num_prefilling,
            )
        )
