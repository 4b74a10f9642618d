"""What became of the streams of a mixed load: errors, and counts by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from chaos.attempt_log import FailedAttempt, read_failed_attempts
from chaos.fleet import Fleet
from chaos.mixed_load.stream_load import LoadedStream
from chaos.transcript import Ending, Transcript
from paceline.gateway.settings.failures import FailureSettings
from paceline.mock_vllm import RequestRecord

_CONTINUED_STEPS = ("continue_elsewhere", "closed")
_NOT_COUNTED = ("unreachable", "not_sent")
"""Outcomes of attempts that reached no engine."""
MAX_CONTINUATIONS = FailureSettings().max_continuations
"""Of one stream."""

MAX_BEYOND_LIMIT = 2


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
    """Those among them that lost more replicas than a stream is continued."""


def find_stream_errors(fleet: Fleet, streams: Sequence[LoadedStream]) -> list[str]:
    """Everything that must not happen: lost, doubled or changed text, and silent ends."""
    records: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    for record in fleet.ended_records():
        records[record.request_id].append(record)
    attempts = read_failed_attempts(fleet.gateway.log)
    return [
        f"{stream.transcript.request_id} ({stream.kind_name}): {error}"
        for stream in streams
        for error in stream.kind.errors_in(
            stream.request,
            stream.transcript,
            records[stream.transcript.request_id],
            is_beyond_limit=is_beyond_limit(attempts.get(stream.transcript.request_id, ())),
        )
    ]


def count_by_kind(fleet: Fleet, streams: Sequence[LoadedStream]) -> dict[str, dict[str, Any]]:
    """The counts of every kind, under the keys of the results."""
    attempts = read_failed_attempts(fleet.gateway.log)
    counts: defaultdict[str, KindCounts] = defaultdict(KindCounts)
    for stream in streams:
        failed = attempts.get(stream.transcript.request_id, ())
        note_stream(counts[stream.kind_name], stream.transcript, failed)
    return {name: asdict(counts[name]) for name in sorted(counts)}


def find_run_failures(
    *,
    num_ordered: int,
    num_injected: int,
    num_struck: int,
    num_errors: int,
    num_beyond_limit: int = 0,
) -> list[str]:
    """Why a run under faults has not passed; empty if it has.

    A run that injects fewer faults than ordered, or none that a stream notices, proves nothing.
    `num_struck` counts the streams that a fault interrupted. More than `MAX_BEYOND_LIMIT` streams
    that lost more replicas than they are continued are no chance.
    """
    failures = []
    if num_injected != num_ordered:
        failures.append(f"{num_injected} of {num_ordered} faults were injected")
    if num_struck == 0:
        failures.append("no stream was struck by a fault")
    if num_errors:
        failures.append(f"{num_errors} errors")
    if num_beyond_limit > MAX_BEYOND_LIMIT:
        failures.append(f"{num_beyond_limit} streams were given up at the limit of continuations")
    return failures


def is_beyond_limit(failed: Sequence[FailedAttempt]) -> bool:
    """Whether the stream was given up because it had been continued as often as is allowed, or
    because as many replicas as are allowed ended under it."""
    if failed and failed[-1].reason == "ends_replicas":
        return True
    num_reached = sum(
        attempt.outcome not in _NOT_COUNTED
        for before, attempt in pairwise(failed)
        if before.step != "retry_elsewhere"
    )
    is_given_up = bool(failed) and failed[-1].reason == "no_attempt_left"
    return is_given_up and num_reached >= MAX_CONTINUATIONS


def note_stream(
    counts: KindCounts, transcript: Transcript, failed: Sequence[FailedAttempt]
) -> None:
    """Count a stream of which these attempts failed."""
    ending = transcript.ending
    is_interrupted = ending is Ending.ERROR_EVENT or any(
        attempt.step in _CONTINUED_STEPS for attempt in failed
    )
    counts.num_streams += 1
    counts.num_completed += ending is Ending.COMPLETED
    counts.num_error_events += ending is Ending.ERROR_EVENT
    counts.num_beyond_limit += ending is Ending.ERROR_EVENT and is_beyond_limit(failed)
    counts.num_begun_anew += any(attempt.step == "retry_elsewhere" for attempt in failed)
    counts.num_interrupted += is_interrupted
    counts.num_interrupted_completed += is_interrupted and ending is Ending.COMPLETED
