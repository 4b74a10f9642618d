"""Which replicas failed while which streams ran on them, by the replicas' own records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.attempt_log import FailedAttempt
from chaos.fleet import Fleet
from paceline.testing.mock_vllm import RequestRecord, read_request_log

_SLACK_S = 1.0
"""Between a signal and the times that processes on a busy machine note for the same moment."""


_NOT_REACHED = ("unreachable", "not_sent")
"""Outcomes of attempts that reached no engine."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of one replica. Times are seconds since the epoch."""

    replica: int
    signal: str
    start_s: float
    end_s: float
    """When the replica runs again."""
    is_noticed: bool = True
    """Of a stopped replica: the gateway took it out of service."""
    left: str = ""
    """What it still had otherwise: its state, and its requests then and before."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a replica that reached its engine."""

    replica: int
    record: RequestRecord


def read_attempts(fleet: Fleet) -> Mapping[str, Sequence[Attempt]]:
    """The attempts of every request, by request id; in the order in which replicas noted them."""
    attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
    for replica, log in enumerate(fleet.request_logs):
        for record in read_request_log(log):
            attempts[record.request_id].append(Attempt(replica, record))
    for each in attempts.values():
        each.sort(key=lambda attempt: attempt.record.begun_s)
    return attempts


def struck_attempts(
    attempts: Sequence[Attempt], strikes: Sequence[Strike], ended_s: float
) -> list[Attempt]:
    """The attempts whose replica failed before the gateway ended them, or before `ended_s`, when
    the client had the end of its stream.

    A replica that sent the end of an answer may fail before the gateway has read it. A stopped
    replica notes when it runs again that a request began or was ended.
    """
    return [attempt for attempt in attempts if _is_struck(attempt, strikes, ended_s)]


def count_struck(
    attempts: Sequence[Attempt],
    failed: Sequence[FailedAttempt],
    strikes: Sequence[Strike],
    begun_s: float,
    ended_s: float,
) -> int:
    """How many replicas failed under a stream.

    A replica may have failed before it noted the request: then the gateway's log has the attempt.
    """
    num_noted = Counter(attempt.replica for attempt in attempts)
    num_failed = Counter(
        int(one.replica.removeprefix("r")) for one in failed if one.outcome not in _NOT_REACHED
    )
    struck = {
        strike.replica
        for strike in strikes
        if strike.start_s - _SLACK_S <= ended_s and begun_s <= strike.end_s + _SLACK_S
    }
    num_unnoted = sum(
        max(0, num_failed[replica] - num_noted[replica]) for replica in struck & set(num_failed)
    )
    return len(struck_attempts(attempts, strikes, ended_s)) + num_unnoted


def _is_struck(attempt: Attempt, strikes: Sequence[Strike], ended_s: float) -> bool:
    record, until_s = attempt.record, ended_s
    if record.ending == "aborted" and record.ended_s is not None:
        until_s = record.ended_s
    return any(
        strike.replica == attempt.replica
        and strike.start_s - _SLACK_S <= until_s
        and record.begun_s <= strike.end_s + _SLACK_S
        for strike in strikes
    )
