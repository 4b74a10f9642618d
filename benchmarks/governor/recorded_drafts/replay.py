"""The engine loop of the replay: requests move through recorded texts by the drafts of an arm.

A step drafts for every request, verifies, and moves each request on by its accepted tokens and one
more. A request that reaches the end of its text is replaced at once by the next text of its kind,
so the number of requests is constant within a phase. Prompts take no time. In an engine a draft is
verified one step after it was made; here in the same step, so an arm sees results a step earlier.
Time is the machine's step time without noise.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.governor.recorded_drafts.machines import Machine
from benchmarks.governor.recorded_drafts.recordings import KINDS, Floats, Ints, Recordings

_CLASS_OF_KIND = np.array([kind.sampling_class for kind in KINDS])


@dataclass(frozen=True, slots=True)
class Phase:
    """A constant number of requests; they take turns through the kinds of text."""

    kinds: tuple[str, ...]
    num_requests: int
    tokens_per_request: int
    """Length: the phase ends once this many tokens came for each request, in the mean."""
    seed: int

    @property
    def name(self) -> str:
        return f"{self.num_requests}-{'+'.join(self.kinds)}"

    @property
    def tokens(self) -> int:
        return self.tokens_per_request * self.num_requests


@dataclass(slots=True, eq=False)
class Batch:
    """The requests of a step, each array of shape (num_requests,). Arms must not change it."""

    recordings: Recordings
    texts: Ints
    positions: Ints
    serials: Ints
    """Numbers of the requests, never used twice."""
    missed: Ints
    """Tokens of context that a draft model which rests has not computed."""
    starts_phase: bool = True

    @property
    def num_requests(self) -> int:
        return len(self.texts)

    @property
    def acceptable(self) -> Ints:
        """Draft tokens that the target would accept now of drafts of the full length."""
        found: Ints = self.recordings.num_accepted[self.texts, self.positions]
        return found

    @property
    def top_logits(self) -> Floats:
        """Log-odds of the draft's likeliest token at each depth, (num_requests,
        MAX_DRAFT_TOKENS). After pass j a policy may know the first j columns."""
        found: Floats = self.recordings.top_logits[self.texts, self.positions]
        return found

    @property
    def classes(self) -> list[str]:
        """The sampling class of each request."""
        found: list[str] = _CLASS_OF_KIND[self.recordings.kinds[self.texts]].tolist()
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """What an arm chose for a step."""

    draft_length: int
    """Passes of the draft model, for all requests."""
    widths: Ints
    """Draft tokens verified of each request, at most `draft_length`; (num_requests,)."""


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What came of a step; arrays of shape (num_requests,)."""

    accepted: Ints
    emitted: Ints
    ended: npt.NDArray[np.bool_]
    seconds: float
    caught_up_tokens: int


class Arm(Protocol):
    """Chooses the drafts of every step. Keeps its state over phases."""

    def choose(self, batch: Batch) -> Drafts:
        """The drafts for these requests; may mutate the arm, never the batch."""
        ...

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        """Called after each step, with the batch as it was in it."""
        ...


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """Tokens and time of a phase."""

    tokens: int
    seconds: float
    num_steps: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


class Replay:
    """Runs one arm through phases. Equal phases give every arm the same texts in the same order."""

    def __init__(self, machine: Machine, recordings: Recordings, arm: Arm) -> None:
        self._machine = machine
        self._recordings = recordings
        self._arm = arm
        self._num_started = 0
        self._is_resting = False

    def run(self, phase: Phase) -> PhaseResult:
        """Serve the phase to its end."""
        queues = self._queues(phase)
        slots = range(phase.num_requests)
        batch = Batch(
            self._recordings,
            texts=np.array([_next_text(queues[slot % len(queues)]) for slot in slots]),
            positions=np.zeros(phase.num_requests, np.int64),
            serials=self._number(phase.num_requests),
            missed=np.full(phase.num_requests, self._missed_prompt),
        )
        tokens, seconds, num_steps = 0, 0.0, 0
        while tokens < phase.tokens:
            result = self._step(batch)
            tokens += int(result.emitted.sum())
            seconds += result.seconds
            num_steps += 1
            batch.starts_phase = False
            batch.positions = batch.positions + result.emitted
            ended = np.flatnonzero(result.ended)
            batch.texts[ended] = [_next_text(queues[slot % len(queues)]) for slot in ended]
            batch.positions[ended] = 0
            batch.serials[ended] = self._number(len(ended))
            batch.missed[ended] = self._missed_prompt
        return PhaseResult(tokens, seconds, num_steps)

    def _step(self, batch: Batch) -> StepResult:
        drafts = self._arm.choose(batch)
        accepted = np.minimum(batch.acceptable, drafts.widths)
        left = self._recordings.num_positions[batch.texts] - batch.positions
        emitted = np.minimum(accepted + 1, left)
        caught_up_tokens = 0
        self._is_resting = self._machine.rests and drafts.draft_length == 0
        if self._is_resting:
            batch.missed += emitted
        else:
            caught_up_tokens = int(batch.missed.sum())
            batch.missed[:] = 0
        seconds = self._machine.step_s(
            batch.num_requests,
            int(drafts.widths.sum()),
            drafts.draft_length,
            catch_up_tokens=caught_up_tokens,
        )
        result = StepResult(accepted, emitted, emitted == left, seconds, caught_up_tokens)
        self._arm.learn(batch, drafts, result)
        return result

    @property
    def _missed_prompt(self) -> int:
        """Tokens that the draft model misses of a prompt that is computed now."""
        return self._machine.context_tokens if self._is_resting else 0

    def _queues(self, phase: Phase) -> list[deque[int]]:
        random = np.random.default_rng(phase.seed)
        return [
            deque(random.permutation(self._recordings.evaluated_texts(kind)).tolist())
            for kind in phase.kinds
        ]

    def _number(self, count: int) -> Ints:
        self._num_started += count
        return np.arange(self._num_started - count, self._num_started)


def _next_text(queue: deque[int]) -> int:
    queue.rotate(-1)
    return queue[-1]
