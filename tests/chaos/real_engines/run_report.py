"""The requests of a run on real engines, its errors, and the counts of its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.attempt_log import FailedAttempt
from chaos.mixed_load.load_report import KindCounts, note_stream
from chaos.real_engines.request_kinds import RequestKind
from chaos.transcript import Ending, Transcript


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
