"""The requests of a run on real engines, its errors, and the counts of its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.attempt_log import FailedAttempt
from chaos.mixed_load.load_report import KindCounts, find_run_failures, note_stream
from chaos.real_engines.request_kinds import RequestKind
from chaos.transcript import Ending, Transcript

MAX_UNJUDGED_FRACTION = 0.05
"""Answers with an unjudged tail, per struck stream. Chosen empirically: so few cannot hide a fault
that every twentieth struck stream has."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and its greedy answers from before the first fault."""

    text: str
    references: dict[str, Transcript] = field(default_factory=dict)
    """By the name of the kind of request."""


@dataclass
class LoadRequest:
    """One request of the load."""

    kind: RequestKind
    prompt: Prompt
    max_tokens: int
    transcript: Transcript
    failed_attempts: Sequence[FailedAttempt] = ()

    @property
    def was_interrupted(self) -> bool:
        return bool(self.failed_attempts)

    @property
    def reference(self) -> Transcript:
        """The answer before the first fault; not for sampled requests."""
        return self.prompt.references[self.kind.reference]


@dataclass
class RunCounts:
    """What became of the requests of a run. The field names are keys of the results."""

    num_requests: int = 0
    kinds: dict[str, KindCounts] = field(default_factory=dict)
    num_eligible_streams: int = 0
    num_eligible_streams_completed: int = 0
    num_eligible_streams_struck: int = 0
    """Those among them whose replica failed, before or after their first token."""
    num_eligible_streams_struck_completed: int = 0
    num_lost_before_first_token: int = 0
    num_silent_truncations: int = 0
    longest_silence_of_struck_s: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)
    """How attempts failed, and what the gateway did next."""

    def note(self, request: LoadRequest) -> None:
        """Count one request."""
        transcript, kind = request.transcript, request.kind
        is_completed = transcript.ending is Ending.COMPLETED
        self.num_requests += 1
        of_kind = self.kinds.setdefault(kind.name, KindCounts())
        note_stream(of_kind, transcript, request.failed_attempts)
        self.num_lost_before_first_token += not (is_completed or transcript.has_first_token)
        self.num_silent_truncations += transcript.ending is Ending.TRUNCATED
        for one in request.failed_attempts:
            step = f"{one.outcome}, {one.step}, {one.reason}"
            self.steps[step] = self.steps.get(step, 0) + 1
        if not (kind.is_eligible and kind.is_stream):
            return
        self.num_eligible_streams += 1
        self.num_eligible_streams_completed += is_completed
        if request.was_interrupted:
            self.num_eligible_streams_struck += 1
            self.num_eligible_streams_struck_completed += is_completed
            self.longest_silence_of_struck_s = max(
                self.longest_silence_of_struck_s, transcript.longest_silence_s
            )


def count(requests: Iterable[LoadRequest]) -> RunCounts:
    """Count these requests."""
    counts = RunCounts()
    for request in requests:
        counts.note(request)
    return counts


def add_up(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of several rounds together, each as `asdict` gives it; the longest silence of all.

    >>> add_up([{"num_requests": 2, "steps": {"a": 1}}, {"num_requests": 3, "steps": {"b": 1}}])
    {'num_requests': 5, 'steps': {'a': 1, 'b': 1}}
    """
    total: dict[str, Any] = {}
    for name in dict.fromkeys(key for one in rounds for key in one):
        values = [one[name] for one in rounds if name in one]
        if isinstance(values[0], Mapping):
            total[name] = add_up(values)
        else:
            total[name] = max(values) if name.startswith("longest") else sum(values)
    return total


def sum_up(rounds: Sequence[Mapping[str, Any]], num_ordered: int) -> dict[str, Any]:
    """The figures of all rounds of a run together, and why it has not passed.

    Each round has the faults, counts, errors and differences of the requests between two saves of
    its result. `num_ordered` is the number of faults of a complete run.
    """
    faults = [fault for one in rounds for fault in one["faults"]]
    differences = [difference for one in rounds for difference in one["differences"]]
    counts = add_up([one["counts"] for one in rounds])
    num_injected = sum(fault["ready_after_s"] is not None for fault in faults)
    num_struck = sum(kind["num_interrupted"] for kind in counts.get("kinds", {}).values())
    num_errors = sum(len(one["errors"]) for one in rounds)
    num_wrong = sum(one["fault"] is not None for one in differences)
    num_unjudged = sum(one["is_tail_unjudged"] for one in differences)
    failures = find_run_failures(
        num_ordered=num_ordered,
        num_injected=num_injected,
        num_struck=num_struck,
        num_errors=num_errors,
    )
    if num_wrong:
        failures.append(f"{num_wrong} wrong answers")
    if num_unjudged > MAX_UNJUDGED_FRACTION * num_struck:
        failures.append(
            f"{num_unjudged} answers were not judged to their end, and {num_struck} streams struck"
        )
    return {
        "is_passed": not failures,
        "failures": failures,
        "num_faults_injected": num_injected,
        "num_streams_struck": num_struck,
        "num_errors": num_errors,
        "num_near_ties": len(differences) - num_wrong,
        "num_tails_unjudged": num_unjudged,
        "num_wrong_answers": num_wrong,
        "num_compared": sum(one["num_compared"] for one in rounds),
        "num_sampled_judged": sum(one["num_sampled_judged"] for one in rounds),
        **counts,
    }


def render_progress(rounds: Sequence[Mapping[str, Any]], num_ordered: int) -> str:
    """How far a run is, and how long the rest takes if it takes as long as the rounds so far.

    >>> render_progress([{"faults": [{}, {}], "duration_s": 90.0}], 10)
    '2 of 10 faults, 45 s each, about 6 min left'
    """
    num_done = sum(len(one["faults"]) for one in rounds)
    each_s = sum(one["duration_s"] for one in rounds) / max(num_done, 1)
    left_min = (num_ordered - num_done) * each_s / 60
    return f"{num_done} of {num_ordered} faults, {each_s:.0f} s each, about {left_min:.0f} min left"


def find_errors(requests: Sequence[LoadRequest]) -> list[str]:
    """List truncations, requests that were not completed, and malformed answers."""
    errors = []
    for request in requests:
        transcript, ending = request.transcript, request.transcript.ending
        attempts = [asdict(attempt) for attempt in request.failed_attempts]
        name = f"{transcript.request_id} ({request.kind.name})"
        if ending is Ending.TRUNCATED:
            errors.append(f"{name}: silent truncation: {transcript}; {attempts}")
        elif ending is Ending.REFUSED:
            errors.append(f"{name}: lost before its first token: {transcript.error}; {attempts}")
        elif ending is Ending.ERROR_EVENT and request.kind.is_eligible:
            errors.append(f"{name}: not completed: {transcript.error}; {attempts}")
        elif ending is Ending.ERROR_EVENT and not transcript.has_first_token:
            errors.append(f"{name}: lost before its first token: {transcript.error}; {attempts}")
        if ending is Ending.COMPLETED:
            errors += [f"{name}: {error}" for error in transcript.format_errors()]
    return errors
