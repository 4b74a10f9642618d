"""What became of the streams of a mixed load: errors, and counts by kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chaos.attempt_log import FailedAttempt, read_failed_attempts
from chaos.fleet import Fleet
from chaos.mixed_load.stream_kinds import MAX_STRUCK
from chaos.mixed_load.stream_load import LoadedStream
from chaos.mixed_load.strikes import Attempt, Strike, count_struck, read_attempts, struck_attempts
from chaos.transcript import Ending, Transcript

_CONTINUED_STEPS = ("continue_elsewhere", "closed")


@dataclass
class KindCounts:
    """The streams of one kind. The field names are keys of the results."""

    num_streams: int = 0
    num_completed: int = 0
    num_begun_anew: int = 0
    """An attempt failed before the client had a token; the stream was begun anew."""
    num_interrupted: int = 0
    """An attempt failed when the client had tokens."""
    num_interrupted_completed: int = 0
    """Those among them that other replicas completed."""
    num_error_events: int = 0
    num_beyond_limit: int = 0
    """Those among them that could have been continued and lost `MAX_STRUCK` replicas."""


@dataclass(frozen=True, slots=True)
class StreamError:
    """What is wrong with one stream. The field names are keys of the results."""

    request_id: str
    kind: str
    path: list[str]
    """The replicas that it ran on: name, style, and `!` where one was struck."""
    steps: list[str]
    """Its failed attempts, by the gateway's log."""
    error: str


def find_stream_errors(
    fleet: Fleet,
    streams: Sequence[LoadedStream],
    strikes: Sequence[Strike],
) -> list[StreamError]:
    """Everything that must not happen: lost, doubled or changed text, silent ends, and error events
    of streams whose replicas did not fail."""
    fleet.ended_records()
    attempts, failed = read_attempts(fleet), read_failed_attempts(fleet.gateway.log)
    errors = []
    for stream in streams:
        request_id = stream.transcript.request_id
        own, own_failed = attempts.get(request_id, ()), failed.get(request_id, ())
        struck = struck_attempts(own, strikes, stream.ended_s)
        found = stream.kind.errors_in(
            stream.request,
            stream.transcript,
            [attempt.record for attempt in own],
            num_struck=count_struck(own, own_failed, strikes, stream.begun_s, stream.ended_s),
        )
        path = [
            f"r{one.replica} [{_style_of(fleet, one)}]" + ("!" if one in struck else "")
            for one in own
        ]
        steps = [
            f"{one.replica}: {one.outcome}: {one.detail}; {one.step}, {one.reason}"
            for one in own_failed
        ]
        errors += [StreamError(request_id, stream.kind_name, path, steps, error) for error in found]
    return errors


def count_by_kind(
    fleet: Fleet, streams: Sequence[LoadedStream], strikes: Sequence[Strike]
) -> dict[str, dict[str, Any]]:
    """The counts of every kind, under the keys of the results."""
    failed, attempts = read_failed_attempts(fleet.gateway.log), read_attempts(fleet)
    counts: defaultdict[str, KindCounts] = defaultdict(KindCounts)
    for stream in streams:
        own = attempts.get(stream.transcript.request_id, ())
        own_failed = failed.get(stream.transcript.request_id, ())
        num_struck = count_struck(own, own_failed, strikes, stream.begun_s, stream.ended_s)
        note_stream(counts[stream.kind_name], stream.transcript, own_failed, num_struck)
    return {name: asdict(counts[name]) for name in sorted(counts)}


def count_by_style(
    fleet: Fleet, streams: Sequence[LoadedStream], strikes: Sequence[Strike]
) -> dict[str, dict[str, int]]:
    """By the style of the replica, and by how the client read: streams that ran there, those that
    were struck there, and those among them that were completed."""
    attempts = read_attempts(fleet)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for stream in streams:
        own = attempts.get(stream.transcript.request_id, ())
        struck = struck_attempts(own, strikes, stream.ended_s)
        for attempt in own:
            name = _style_of(fleet, attempt) + (", read slowly" if stream.is_slow else "")
            counts[name]["num_attempts"] += 1
            counts[name]["num_struck"] += attempt in struck
            counts[name]["num_struck_completed"] += (
                attempt in struck and stream.transcript.ending is Ending.COMPLETED
            )
    return {name: dict(counts[name]) for name in sorted(counts)}


def _style_of(fleet: Fleet, attempt: Attempt) -> str:
    return fleet.styles[attempt.replica] if fleet.styles else "plain"


def find_run_failures(
    *,
    num_ordered: int,
    num_injected: int,
    num_struck: int,
    num_errors: int,
) -> list[str]:
    """Why a run under faults has not passed; empty if it has.

    A run that injects fewer faults than ordered, or none that a stream notices, proves nothing.
    `num_struck` counts the streams that a fault interrupted.
    """
    failures = []
    if num_injected != num_ordered:
        failures.append(f"{num_injected} of {num_ordered} faults were injected")
    if num_struck == 0:
        failures.append("no stream was struck by a fault")
    if num_errors:
        failures.append(f"{num_errors} errors")
    return failures


def note_stream(
    counts: KindCounts,
    transcript: Transcript,
    failed: Sequence[FailedAttempt],
    num_struck: int = 0,
) -> None:
    """Count a stream of which these attempts failed; `num_struck` replicas failed under it."""
    ending = transcript.ending
    is_interrupted = ending is Ending.ERROR_EVENT or any(
        attempt.step in _CONTINUED_STEPS for attempt in failed
    )
    counts.num_streams += 1
    counts.num_completed += ending is Ending.COMPLETED
    counts.num_error_events += ending is Ending.ERROR_EVENT
    could_continue = not failed or failed[-1].reason != "not_continuable"
    counts.num_beyond_limit += (
        ending is Ending.ERROR_EVENT and could_continue and num_struck >= MAX_STRUCK
    )
    counts.num_begun_anew += any(attempt.step == "retry_elsewhere" for attempt in failed)
    counts.num_interrupted += is_interrupted
    counts.num_interrupted_completed += is_interrupted and ending is Ending.COMPLETED
