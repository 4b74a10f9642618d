"""A silent replica is hung only if its engine's counters stand still too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from paceline.runtime.gateway.fleet.prober import ReplicaProbeNotSent
from paceline.runtime.gateway.hung_replicas import Activity, HungReplicas, is_hung
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.stall_detection import Silence, StallLimits
from paceline.runtime.gateway.routing.stream_progress import ProgressReport, ReplicaProgress
from unit.gateway.conftest import FixedReplicas

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready")
LIMITS = StallLimits(
    silence_s=30, first_silence_s=60, stall_timeout_s=120, first_byte_timeout_s=300
)


class Traffic:
    """Streams that have been silent for a time that the test sets."""

    def __init__(self, progress: ReplicaProgress) -> None:
        self._since_s = time.monotonic() - 1000.0
        self._progress = progress
        self.silent_for_s = 0.0
        self.bytes_at_s = 0.0
        self.cut: list[str] = []

    def progress_reports(self) -> Sequence[ProgressReport]:
        since_s, kept = self._since_s, self._progress
        progress = ReplicaProgress(
            kept.num_listening, kept.num_first, kept.num_whole,
            since_s, since_s, since_s, self.bytes_at_s,
            kept.longest_s, kept.longest_first_s,
        )  # fmt: skip
        return [ProgressReport(since_s + self.silent_for_s, {"r0": progress})]

    def cut_hung(self, replica_name: str) -> None:
        self.cut.append(replica_name)

    def bytes_come(self) -> None:
        self.bytes_at_s = self._since_s + self.silent_for_s


class Checked:
    """Rounds of the check while time passes; the readings are scripted."""

    def __init__(
        self, progress: ReplicaProgress, *readings: Activity | None, replica: Replica = R0
    ) -> None:
        self.replica = replica
        self.traffic = Traffic(progress)
        self.readings = list(readings)
        self.hung: list[str] = []
        self.check = HungReplicas(
            FixedReplicas([replica]), self.traffic, LIMITS, self.read, self.hung.append
        )

    async def read(self, replica: Replica) -> Activity | None:
        assert replica is self.replica
        return self.readings.pop(0)

    async def after(self, *silences_s: float) -> list[str]:
        """One round after each of these silences; the replicas that were found hung."""
        for silent_for_s in silences_s:
            self.traffic.silent_for_s = silent_for_s
            await self.check.run_once()
        assert self.traffic.cut == self.hung
        return self.hung


THREE_STREAMS = ReplicaProgress(num_listening=3)


async def test_counters_that_stand_still_confirm_the_silence() -> None:
    checked = Checked(THREE_STREAMS, (7, 0.5, 0), (7, 0.5, 0))
    assert await checked.after(4.0, 6.0, 9.0) == []
    assert len(checked.readings) == 1  # the first is made after half the time, once
    assert await checked.after(10.5) == ["r0"]


@pytest.mark.parametrize("later", [(8, 0.5, 0), (7, 0.6, 0), (7, 0.5, 1)])
async def test_an_engine_whose_counters_move_is_not_hung(later: Activity) -> None:
    """It computes a long prompt, or the requests of others."""
    checked = Checked(THREE_STREAMS, (7, 0.5, 0), later)
    assert await checked.after(6.0, 10.5, 11.0, 12.0) == []


async def test_an_engine_without_counters_is_judged_by_its_streams() -> None:
    assert await Checked(THREE_STREAMS, None, None).after(6.0, 10.5) == ["r0"]


async def test_an_engine_that_stops_to_show_counters_is_hung() -> None:
    assert await Checked(THREE_STREAMS, (7, 0.5, 0), None).after(6.0, 10.5) == ["r0"]


async def test_a_first_reading_that_fails_is_made_up_for() -> None:
    checked = Checked(THREE_STREAMS, None, (7, 0.5, 0), (7, 0.5, 0))
    assert await checked.after(6.0, 10.5) == []
    assert await checked.after(11.5) == ["r0"]


async def test_a_reading_that_the_gateway_could_not_make_is_no_verdict() -> None:
    checked = Checked(THREE_STREAMS)

    async def read(replica: Replica) -> Activity | None:
        raise ReplicaProbeNotSent("too many open files")

    checked.check = HungReplicas(
        FixedReplicas([R0]), checked.traffic, LIMITS, read, checked.hung.append
    )
    assert await checked.after(6.0, 10.5, 11.5) == []


async def test_bytes_that_come_during_the_reading_count() -> None:
    checked = Checked(THREE_STREAMS, (7, 0.5, 0), (7, 0.5, 0))

    async def read(replica: Replica) -> Activity | None:
        if len(checked.readings) == 1:
            checked.traffic.bytes_come()
        return checked.readings.pop()

    checked.check = HungReplicas(
        FixedReplicas([R0]), checked.traffic, LIMITS, read, checked.hung.append
    )
    assert await checked.after(6.0, 10.5) == []
    assert not checked.readings


async def test_whole_answers_need_counters_that_stand_still() -> None:
    whole = ReplicaProgress(num_whole=5)
    assert await Checked(whole, None, None).after(31.0, 60.5) == []
    assert await Checked(whole, (7, 0.5, 0), None).after(31.0, 60.5) == []
    assert await Checked(whole, (7, 0.5, 0), (7, 0.5, 0)).after(31.0, 60.5) == ["r0"]


async def test_whole_answers_of_a_server_that_answers_no_poll_are_ended() -> None:
    """Of a stopped process, or of a machine that was lost: the connection stays open."""
    whole, down = ReplicaProgress(num_whole=1), replace(R0, state="down")
    assert await Checked(whole, None, None, replica=down).after(31.0, 60.5) == ["r0"]
    assert await Checked(whole, (7, 0.5, 0), None, replica=down).after(31.0, 60.5) == ["r0"]
    assert await Checked(whole, (7, 0.5, 0), (8, 0.5, 0), replica=down).after(31.0, 60.5) == []


@pytest.mark.parametrize(
    ("kind", "soon_s"), [("num_listening", 30.5), ("num_first", 60.5), ("num_whole", 60.5)]
)
async def test_a_stopped_replica_that_was_stopped_before_keeps_no_request(
    kind: str, soon_s: float
) -> None:
    """The requests that it answered after the first time make such a silence look usual."""
    paused = ReplicaProgress(**{kind: 1}, longest_s=20.0, longest_first_s=50.0)
    assert await Checked(paused, None, None).after(soon_s) == []
    assert await Checked(paused, None, None, replica=replace(R0, state="down")).after(
        soon_s
    ) == ["r0"]  # fmt: skip


async def test_whole_answers_of_a_server_without_metrics_are_waited_for() -> None:
    """It may compute in the thread that answers its health check."""
    down = replace(R0, state="down", dialect="llamacpp-python")
    assert await Checked(ReplicaProgress(num_whole=1), None, None, replica=down).after(
        *(31.0, 60.5)
    ) == []  # fmt: skip


async def test_replicas_that_left_are_not_read() -> None:
    checked = Checked(THREE_STREAMS)
    checked.check = HungReplicas(
        FixedReplicas([]), checked.traffic, LIMITS, checked.read, checked.hung.append
    )
    assert await checked.after(60.0, 90.0) == []


@pytest.mark.parametrize(
    ("has_streams", "before", "now", "is_down", "expected"),
    [
        (True, (1,), (1,), False, True),
        (True, (1,), (2,), False, False),
        (True, None, None, False, True),
        (True, (1,), None, False, True),
        (False, (1,), (1,), False, True),
        (False, (1,), (2,), False, False),
        (False, None, None, False, False),
        (False, (1,), None, False, False),
        (False, None, None, True, True),
        (False, (1,), None, True, True),
        (False, (1,), (2,), True, False),
        (True, (1,), (2,), True, False),
    ],
)
def test_the_verdict(
    has_streams: bool, before: Activity | None, now: Activity | None, is_down: bool, expected: bool
) -> None:
    silence = Silence("r0", 0.0, 10.0, 11.0, has_streams)
    assert is_hung(silence, before, now, is_down=is_down) is expected
