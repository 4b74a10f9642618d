"""The steps of one simulated phase, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paceline.testing.policy_simulator.engine.batch import Floats, Ints
from paceline.testing.policy_simulator.traffic.phases import Phase


@dataclass(frozen=True, slots=True, eq=False)
class StepLog:
    """Columns over the steps of one phase, shape (num_steps,) each, read only."""

    phase: Phase
    seconds: float
    """Virtual time from the phase's start to its end, idle time included."""
    duration_s: Floats
    expected_s: Floats
    """The same by the cost function alone, undisturbed."""
    draft_length: Ints
    """Planned in this step, verified in the next."""
    requested_draft_length: Ints
    num_requests: Ints
    output_tokens: Ints
    drafted_tokens: Ints
    accepted_tokens: Ints
    prefill_tokens: Ints
    catch_up_tokens: Ints
    inter_chunk_s: Floats
    """Every wait between two outputs of one request, shape (num_waits,)."""
    first_token_s: Floats
    """Every wait from a request's arrival to its first output, shape (num_first_tokens,)."""
    time_per_output_token_s: Floats
    """Of each request that ended in the phase with two tokens or more: the time from its first to
    its last, per token after the first, shape (num_ended,)."""

    @property
    def num_steps(self) -> int:
        return len(self.duration_s)

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second; 0 for a phase in which nothing ran."""
        return float(self.output_tokens.sum()) / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class LogWriter:
    """Collects the steps of one phase."""

    phase: Phase
    steps: list[tuple[float, float, int, int, int, int, int, int, int, int]] = field(
        default_factory=list
    )
    waits: list[Floats] = field(default_factory=list)
    firsts: list[Floats] = field(default_factory=list)
    paces: list[Floats] = field(default_factory=list)
    ended_tokens: int = 0
    """Output tokens of the answers that ended in the phase."""

    def finish(self, seconds: float) -> StepLog:
        """The log, for a phase that took `seconds`."""
        columns = np.asarray(self.steps, dtype=float).reshape(-1, 10).T
        counts = columns[2:].astype(np.int64)
        none = [np.zeros(0)]
        return StepLog(
            phase=self.phase,
            seconds=seconds,
            duration_s=columns[0],
            expected_s=columns[1],
            draft_length=counts[0],
            requested_draft_length=counts[1],
            num_requests=counts[2],
            output_tokens=counts[3],
            drafted_tokens=counts[4],
            accepted_tokens=counts[5],
            prefill_tokens=counts[6],
            catch_up_tokens=counts[7],
            inter_chunk_s=np.concatenate(self.waits or none),
            first_token_s=np.concatenate(self.firsts or none),
            time_per_output_token_s=np.concatenate(self.paces or none),
        )
