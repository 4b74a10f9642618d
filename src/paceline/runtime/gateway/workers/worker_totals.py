"""The parent's knowledge of its workers: their reports summed up, and the replica list they use.

State on values, without I/O. The pool feeds it with the messages of the workers; the admin port
and the fleet read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.runtime.gateway.metrics.samples import FamilyOfSamples, add_samples, only_counted
from paceline.runtime.gateway.replicas import Replica, ReplicaSource
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.routing.stream_progress import ProgressReport
from paceline.runtime.gateway.workers.messages import MetricsReport, ReplicaList, WorkerReport

_WORST_FIRST = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)


class WorkerTotals:
    """Reports and metrics of the workers 0 to N - 1.

    Before its first report a worker counts as one without requests.
    """

    def __init__(self, num_workers: int) -> None:
        self.reports = [WorkerReport() for _ in range(num_workers)]
        self._metrics = [MetricsReport() for _ in range(num_workers)]
        self._progress: dict[int, ProgressReport] = {}
        self._ended_workers: Sequence[FamilyOfSamples] = ()
        """Final metrics of the workers that have ended."""

    def set_report(self, worker_index: int, report: WorkerReport) -> None:
        self.reports[worker_index] = report

    def set_metrics(self, worker_index: int, metrics: MetricsReport) -> None:
        self._metrics[worker_index] = metrics

    def set_progress(self, worker_index: int, report: ProgressReport) -> None:
        self._progress[worker_index] = report

    def progress_reports(self) -> Sequence[ProgressReport]:
        """The last report of each worker that has sent one."""
        return tuple(self._progress.values())

    def worker_ended(self, worker_index: int) -> int:
        """Keep what the worker has counted and drop what it held.

        Returns the number of requests that it had in flight.
        """
        lost = self.reports[worker_index]
        self._ended_workers = add_samples(
            [self._ended_workers, only_counted(self._metrics[worker_index].families)]
        )
        self.reports[worker_index] = WorkerReport()
        self._progress.pop(worker_index, None)
        self._metrics[worker_index] = MetricsReport()
        return sum(lost.in_flight.values())

    def num_in_flight(self, replica_name: str) -> int:
        return sum(report.in_flight.get(replica_name, 0) for report in self.reports)

    def breaker_states(self) -> Mapping[str, BreakerState]:
        """The worst breaker state of each replica in any worker."""
        worst: dict[str, BreakerState] = {}
        for report in self.reports:
            for name, state in report.breakers.items():
                worst[name] = min(state, worst.get(name, state), key=_WORST_FIRST.index)
        return worst

    def samples(self) -> Sequence[FamilyOfSamples]:
        """The metrics of all workers, including workers that have ended."""
        return add_samples([self._ended_workers, *(report.families for report in self._metrics)])

    def all_use_replicas(self, version: int) -> bool:
        """Whether all serving workers use the replica list of this version or a later one."""
        return all(
            report.replicas_version >= version for report in self.reports if report.replicas_version
        )

    def queue_lengths_of_peers(self, worker_index: int) -> dict[str, int]:
        """Waiting requests by model, summed over all workers except this one."""
        lengths: dict[str, int] = {}
        for index, report in enumerate(self.reports):
            for model, count in report.queue_lengths.items() if index != worker_index else ():
                lengths[model] = lengths.get(model, 0) + count
        return lengths


class VersionedReplicas:
    """The current replica list with a version number.

    The list is compared, because its source does not report changes.
    """

    def __init__(self) -> None:
        self.current = ReplicaList(0, ())

    def update(self, replicas: Sequence[Replica]) -> ReplicaList:
        """The current list; a new version if anything has changed."""
        if self.current.version == 0 or self.current.replicas != tuple(replicas):
            self.current = ReplicaList(self.current.version + 1, tuple(replicas))
        return self.current


class PoolTraffic:
    """The `Traffic` of all workers. Its numbers are about 50 ms old."""

    def __init__(self, totals: WorkerTotals, replicas: VersionedReplicas) -> None:
        self._totals = totals
        self._replicas = replicas
        self._source: ReplicaSource | None = None

    def set_source(self, source: ReplicaSource) -> None:
        """Set the source of the replica list."""
        self._source = source

    def num_in_flight(self, replica_name: str) -> int:
        """Requests in flight on the replica.

        A draining replica counts as holding at least one request until all workers have reported
        that they use the new replica list: until then a worker may just have begun a request.
        """
        return self._totals.num_in_flight(replica_name) or int(self._may_get_requests(replica_name))

    def breaker_states(self) -> Mapping[str, BreakerState]:
        return self._totals.breaker_states()

    def _may_get_requests(self, replica_name: str) -> bool:
        """Whether a worker may still treat this draining replica as ready."""
        replicas = () if self._source is None else self._source.replicas()
        if not any(one.name == replica_name and one.state == "draining" for one in replicas):
            return False
        return not self._totals.all_use_replicas(self._replicas.update(replicas).version)
