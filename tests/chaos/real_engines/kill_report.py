"""The requests and kills of a run on real engines, its errors and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.engines import Victim
from chaos.real_engines.request_kinds import RequestKind
from chaos.transcript import Ending, Transcript


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and its greedy answers from before the first kill."""

    text: str
    references: dict[str, Transcript] = field(default_factory=dict)
    """By the name of the kind of request."""


@dataclass
class Kill:
    """One kill. The field names are keys of the results."""

    victim: Victim
    replica: str
    at_s: float
    pids: list[int]
    num_in_flight: int
    """Requests on the replica just before."""
    down_after_s: float | None = None
    """Time until the gateway stopped sending requests to the replica."""
    ready_after_s: float | None = None


@dataclass
class LoadRequest:
    """One request of the load."""

    kind: RequestKind
    prompt: Prompt
    transcript: Transcript
    failed_attempts: list[str] = field(default_factory=list)
    """How attempts failed and what the gateway did next, from its log."""

    @property
    def was_interrupted(self) -> bool:
        return bool(self.failed_attempts)

    def first_difference(self) -> int | None:
        """Return the first token that differs from the reference; a character without ids."""
        reference = self.prompt.references[self.kind.name]
        ours: Sequence[object] = self.transcript.ids or self.transcript.text
        theirs: Sequence[object] = reference.ids if self.transcript.ids else reference.text
        if ours == theirs:
            return None
        pairs = zip(ours, theirs, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def find_errors(requests: Sequence[LoadRequest]) -> list[str]:
    """List truncations, requests that were not completed, and malformed answers."""
    errors = []
    for request in requests:
        transcript, attempts = request.transcript, request.failed_attempts
        name, ending = f"{transcript.request_id} ({request.kind.name})", transcript.ending
        if ending is Ending.TRUNCATED:
            errors.append(f"{name}: silent truncation: {transcript}")
        elif ending is Ending.REFUSED:
            errors.append(f"{name}: lost before its first token: {transcript.error}; {attempts}")
        elif ending is Ending.ERROR_EVENT and request.kind.is_eligible:
            errors.append(f"{name}: not completed: {transcript.error}; {attempts}")
        elif ending is Ending.ERROR_EVENT and not transcript.has_first_token:
            errors.append(f"{name}: lost before its first token: {transcript.error}; {attempts}")
        if ending is Ending.COMPLETED:
            errors += [f"{name}: {error}" for error in transcript.format_errors()]
    return errors


def summarize(requests: Sequence[LoadRequest], kills: Sequence[Kill]) -> dict[str, Any]:
    """Return the counts of the run, under the keys of the results."""
    endings: dict[str, dict[str, int]] = {}
    for request in requests:
        name = f"{request.kind.name}{', struck' if request.was_interrupted else ''}"
        counts = endings.setdefault(name, {})
        ending = request.transcript.ending
        counts[ending] = counts.get(ending, 0) + 1
    eligible = [r for r in requests if r.kind.is_eligible and r.kind.fields.get("stream")]
    interrupted = [r for r in eligible if r.was_interrupted]
    transcripts = [request.transcript for request in requests]
    return {
        "num_kills": len(kills),
        "num_requests": len(requests),
        "num_eligible_streams": len(eligible),
        "num_eligible_streams_struck": len(interrupted),
        "num_eligible_streams_completed": _num_completed(eligible),
        "num_eligible_streams_struck_completed": _num_completed(interrupted),
        "num_greedy_struck": sum(r.kind.is_greedy for r in interrupted),
        "num_lost_before_first_token": sum(
            t.ending is not Ending.COMPLETED and not t.has_first_token for t in transcripts
        ),
        "num_silent_truncations": sum(t.ending is Ending.TRUNCATED for t in transcripts),
        "endings": endings,
        "steps": dict(
            Counter(attempt.split(" ", 1)[1] for r in requests for attempt in r.failed_attempts)
        ),
        "longest_silence_of_struck_s": max(
            (r.transcript.longest_silence_s for r in interrupted), default=None
        ),
        "kills": [asdict(kill) for kill in kills],
    }


def _num_completed(requests: Sequence[LoadRequest]) -> int:
    return sum(r.transcript.ending is Ending.COMPLETED for r in requests)
