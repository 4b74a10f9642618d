"""What do several workers come to, taken together?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from paceline.gateway import FleetSettings, GatewaySettings, Replica
from paceline.gateway.metrics.metrics import GatewayMetrics, RequestTimes
from paceline.gateway.metrics.samples import FamilyOfSamples
from paceline.gateway.outcomes import Outcome
from paceline.gateway.routing.breaker import BreakerState
from paceline.gateway.settings import KeySettings
from paceline.gateway.workers.messages import (
    Counts,
    LineDecoder,
    Replicas,
    Report,
    Setup,
    ToHead,
    ToWorker,
    encode_line,
)
from paceline.gateway.workers.snapshots import Snapshots, WorkersTraffic
from paceline.gateway.workers.totals import Totals
from paceline.gateway.workers.worker_process import explain_exit
from unit.gateway.conftest import FixedReplicas

R0 = Replica("r0", "/r0.sock", "tiny", "ready")
CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN


def page(of_workers: Sequence[FamilyOfSamples]) -> dict[str, float]:
    """As the head shows it: its own metrics, with those of the workers."""
    text = GatewayMetrics().render([], {}, {}, {}, of_workers).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


def counts_of(num_completed: int, num_waiting: int = 0) -> Counts:
    metrics = GatewayMetrics()
    for _ in range(num_completed):
        metrics.request_ended(Outcome.COMPLETED)
        RequestTimes(metrics).sent_upstream(1)
    metrics.queue_changed(num_waiting)
    return Counts(metrics.samples())


def test_counters_histograms_and_the_queue_add_up() -> None:
    totals = Totals(2)
    totals.counted(0, counts_of(3, num_waiting=1))
    totals.counted(1, counts_of(4, num_waiting=2))
    shown = page(totals.samples())
    assert shown['paceline_requests_total{outcome="completed"}'] == 7
    assert shown['paceline_requests_total{outcome="refused"}'] == 0
    assert shown["paceline_queue_seconds_count"] == 7
    assert shown['paceline_queue_seconds_bucket{le="+Inf"}'] == 7
    assert shown["paceline_admission_queue_length"] == 3


def test_the_page_has_the_same_names_however_many_serve() -> None:
    totals = Totals(2)
    totals.counted(0, counts_of(3))
    assert page(totals.samples()).keys() == page(()).keys()


def test_labels_that_the_head_has_not_met_are_shown() -> None:
    metrics = GatewayMetrics()
    metrics.retried(Outcome.EXPIRED)  # none of those that every gateway shows
    assert page(metrics.samples())['paceline_retries_total{kind="expired"}'] == 1


def test_counts_told_again_replace_those_before() -> None:
    totals = Totals(1)
    totals.counted(0, counts_of(3))
    totals.counted(0, counts_of(5))
    assert page(totals.samples())['paceline_requests_total{outcome="completed"}'] == 5


def test_what_a_dead_worker_counted_stays_and_what_it_held_does_not() -> None:
    totals = Totals(2)
    for num_completed in (3, 10):  # its successor begins at nothing, and dies too
        totals.counted(0, counts_of(num_completed, num_waiting=1))
        totals.reported(0, Report(in_flight={"r0": 2, "r1": 1}, breakers={"r0": OPEN}))
        assert totals.ended(0) == 3
        assert totals.num_in_flight("r0") == 0
        assert totals.breaker_states() == {}
    totals.counted(1, counts_of(100, num_waiting=4))
    shown = page(totals.samples())
    assert shown['paceline_requests_total{outcome="completed"}'] == 113
    assert shown["paceline_queue_seconds_count"] == 113
    assert shown["paceline_admission_queue_length"] == 4


def test_requests_in_flight_add_up() -> None:
    totals = Totals(3)
    totals.reported(0, Report(in_flight={"r0": 2}))
    totals.reported(1, Report(in_flight={"r0": 3, "r1": 1}))
    totals.reported(2, Report(in_flight={"r1": 5}))
    assert (totals.num_in_flight("r0"), totals.num_in_flight("r1")) == (5, 6)
    assert totals.in_flight_elsewhere(1) == {"r0": 2, "r1": 5}


@pytest.mark.parametrize(
    ("seen", "worst"),
    [((CLOSED, OPEN), OPEN), ((HALF_OPEN, CLOSED), HALF_OPEN), ((HALF_OPEN, OPEN), OPEN)],
)
def test_of_breakers_the_worst_is_shown(
    seen: tuple[BreakerState, BreakerState], worst: BreakerState
) -> None:
    totals = Totals(3)
    for place, state in enumerate(seen):
        totals.reported(place, Report(breakers={"r0": state}))
    assert totals.breaker_states() == {"r0": worst}


def test_a_list_of_replicas_is_new_when_anything_in_it_is() -> None:
    snapshots = Snapshots()
    first = snapshots.take([R0])
    assert first == Replicas(1, (R0,))
    assert snapshots.take([replace(R0)]) is first
    for changed in (replace(R0, state="down"), replace(R0, key="k"), replace(R0, max_model_len=9)):
        before = snapshots.last.number
        assert snapshots.take([changed]) == Replicas(before + 1, (changed,))
    assert snapshots.take([]).number == 5


def test_an_empty_list_is_told_too() -> None:
    """A worker waits for its first one."""
    assert Snapshots().take([]).number == 1


def test_a_replica_that_is_taken_out_is_not_idle_before_all_workers_know() -> None:
    totals, snapshots, source = Totals(3), Snapshots(), FixedReplicas([R0])
    traffic = WorkersTraffic(totals, snapshots)
    traffic.goes_by(source)
    before = snapshots.take(source.replicas()).number
    for place in (0, 1):  # the third is being started again, and learns before it serves
        totals.reported(place, Report(replicas_heard=before))
    assert traffic.num_in_flight("r0") == 0
    source.current = [replace(R0, state="draining")]
    assert traffic.num_in_flight("r0") == 1
    totals.reported(0, Report(replicas_heard=before + 1))
    assert traffic.num_in_flight("r0") == 1
    totals.reported(1, Report(replicas_heard=before + 1, in_flight={"r0": 4}))
    assert traffic.num_in_flight("r0") == 4
    totals.reported(1, Report(replicas_heard=before + 1))
    assert traffic.num_in_flight("r0") == 0


def test_messages_arrive_as_they_were() -> None:
    keys = KeySettings(file=Path("/k"), admin_key_file=Path("/a"), metrics_need_key=True)
    settings = GatewaySettings(
        keys=keys, granted_fields=frozenset({"ignore_eos"}), fleet=FleetSettings(), workers=3
    )
    replica = replace(R0, key="s3cret", control_socket=Path("/c"), max_in_flight=4)
    for message in (Setup(settings), Replicas(7, (replica, R0))):
        assert LineDecoder(ToWorker).decode(encode_line(message)) == message
    report = Report(in_flight={"r0": 1}, breakers={"r0": HALF_OPEN})
    for answer in (report, counts_of(2)):
        assert LineDecoder(ToHead).decode(encode_line(answer)) == answer


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        LineDecoder(ToHead).decode(b'{"type": "setup"}\n')


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "ended with exit code 1"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_an_exit_is_told_in_words(code: int, words: str) -> None:
    assert explain_exit(code) == words
