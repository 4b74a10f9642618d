"""Metrics, requests in flight and replica lists of several workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from paceline.runtime.gateway import Replica
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.request_times import RequestTimes
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.workers.messages import MetricsReport, ReplicaList, WorkerReport
from paceline.runtime.gateway.workers.worker_totals import (
    PoolTraffic,
    VersionedReplicas,
    WorkerTotals,
)
from unit.gateway.conftest import FixedReplicas

R0 = Replica("r0", "/r0.sock", "tiny", "ready")
CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN


def page(of_workers: Sequence[FamilyOfSamples]) -> dict[str, float]:
    """The values of the metrics page: the parent's own metrics with those of the workers."""
    text = GatewayMetrics().render([], {}, {}, {}, of_workers).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


def metrics_of(num_completed: int, num_waiting: int = 0) -> MetricsReport:
    metrics = GatewayMetrics()
    for _ in range(num_completed):
        metrics.request_ended(Outcome.COMPLETED)
        RequestTimes(metrics).sent_upstream(1)
    if num_waiting:
        metrics.of_model("m").queue_changed(num_waiting)
    return MetricsReport(metrics.samples())


def test_counters_histograms_and_the_queue_add_up() -> None:
    totals = WorkerTotals(2)
    totals.set_metrics(0, metrics_of(3, num_waiting=1))
    totals.set_metrics(1, metrics_of(4, num_waiting=2))
    shown = page(totals.samples())
    assert shown['paceline_requests_total{outcome="completed"}'] == 7
    assert shown['paceline_requests_total{outcome="refused"}'] == 0
    assert shown["paceline_queue_seconds_count"] == 7
    assert shown['paceline_queue_seconds_bucket{le="+Inf"}'] == 7
    assert shown['paceline_admission_queue_length{model="m"}'] == 3


def test_the_metric_names_do_not_depend_on_the_number_of_workers() -> None:
    totals = WorkerTotals(2)
    totals.set_metrics(0, metrics_of(3))
    assert page(totals.samples()).keys() == page(()).keys()


def test_the_open_files_of_each_process_are_shown() -> None:
    totals = WorkerTotals(2)
    for index in range(2):
        totals.set_metrics(index, MetricsReport(GatewayMetrics(f"worker-{index}").samples()))
    shown = page(totals.samples())
    for process in ("gateway", "worker-0", "worker-1"):
        used = shown[f'paceline_open_files{{process="{process}"}}']
        assert 0 < used < shown[f'paceline_open_files_limit{{process="{process}"}}']
    totals.worker_ended(1)
    assert 'paceline_open_files{process="worker-1"}' not in page(totals.samples())


def test_labels_unknown_to_the_parent_are_included() -> None:
    metrics = GatewayMetrics()
    metrics.retried(Outcome.EXPIRED)  # not a label that every gateway starts with
    assert page(metrics.samples())['paceline_retries_total{kind="expired"}'] == 1


def test_a_new_metrics_report_replaces_the_previous_one() -> None:
    totals = WorkerTotals(1)
    totals.set_metrics(0, metrics_of(3))
    totals.set_metrics(0, metrics_of(5))
    assert page(totals.samples())['paceline_requests_total{outcome="completed"}'] == 5


def test_an_ended_worker_keeps_its_counts_and_loses_its_requests() -> None:
    totals = WorkerTotals(2)
    for num_completed in (3, 10):  # its successor starts from zero and ends too
        totals.set_metrics(0, metrics_of(num_completed, num_waiting=1))
        totals.set_report(0, WorkerReport(in_flight={"r0": 2, "r1": 1}, breakers={"r0": OPEN}))
        assert totals.worker_ended(0) == 3
        assert totals.num_in_flight("r0") == 0
        assert totals.breaker_states() == {}
    totals.set_metrics(1, metrics_of(100, num_waiting=4))
    shown = page(totals.samples())
    assert shown['paceline_requests_total{outcome="completed"}'] == 113
    assert shown["paceline_queue_seconds_count"] == 113
    assert shown['paceline_admission_queue_length{model="m"}'] == 4


def test_requests_in_flight_add_up() -> None:
    totals = WorkerTotals(3)
    totals.set_report(0, WorkerReport(in_flight={"r0": 2}))
    totals.set_report(1, WorkerReport(in_flight={"r0": 3, "r1": 1}))
    totals.set_report(2, WorkerReport(in_flight={"r1": 5}))
    assert (totals.num_in_flight("r0"), totals.num_in_flight("r1")) == (5, 6)


def test_queue_lengths_of_the_peers_add_up() -> None:
    totals = WorkerTotals(3)
    totals.set_report(0, WorkerReport(queue_lengths={"m": 2}))
    totals.set_report(1, WorkerReport(queue_lengths={"m": 3, "k": 1}))
    totals.set_report(2, WorkerReport(queue_lengths={"k": 5}))
    assert totals.queue_lengths_of_peers(1) == {"m": 2, "k": 5}


@pytest.mark.parametrize(
    ("seen", "worst"),
    [((CLOSED, OPEN), OPEN), ((HALF_OPEN, CLOSED), HALF_OPEN), ((HALF_OPEN, OPEN), OPEN)],
)
def test_the_worst_breaker_state_of_all_workers_wins(
    seen: tuple[BreakerState, BreakerState], worst: BreakerState
) -> None:
    totals = WorkerTotals(3)
    for worker_index, state in enumerate(seen):
        totals.set_report(worker_index, WorkerReport(breakers={"r0": state}))
    assert totals.breaker_states() == {"r0": worst}


def test_a_replica_list_gets_a_new_version_with_any_change() -> None:
    replicas = VersionedReplicas()
    first = replicas.update([R0])
    assert first == ReplicaList(1, (R0,))
    assert replicas.update([replace(R0)]) is first
    for changed in (replace(R0, state="down"), replace(R0, key="k"), replace(R0, max_model_len=9)):
        before = replicas.current.version
        assert replicas.update([changed]) == ReplicaList(before + 1, (changed,))
    assert replicas.update([]).version == 5


def test_an_empty_replica_list_gets_a_version_too() -> None:
    """A worker waits for its first list."""
    assert VersionedReplicas().update([]).version == 1


def test_a_draining_replica_is_not_idle_before_all_workers_know() -> None:
    totals, replicas, source = WorkerTotals(3), VersionedReplicas(), FixedReplicas([R0])
    traffic = PoolTraffic(totals, replicas)
    traffic.set_source(source)
    before = replicas.update(source.replicas()).version
    for worker_index in (0, 1):  # the third is restarting and gets the list before it serves
        totals.set_report(worker_index, WorkerReport(replicas_version=before))
    assert traffic.num_in_flight("r0") == 0
    source.current = [replace(R0, state="draining")]
    assert traffic.num_in_flight("r0") == 1
    totals.set_report(0, WorkerReport(replicas_version=before + 1))
    assert traffic.num_in_flight("r0") == 1
    totals.set_report(1, WorkerReport(replicas_version=before + 1, in_flight={"r0": 4}))
    assert traffic.num_in_flight("r0") == 4
    totals.set_report(1, WorkerReport(replicas_version=before + 1))
    assert traffic.num_in_flight("r0") == 0
