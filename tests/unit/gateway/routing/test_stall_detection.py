"""Which replicas are silent for too long, over all processes."""

from __future__ import annotations

from paceline.runtime.gateway.routing.stall_detection import Silence, StallLimits, silences
from paceline.runtime.gateway.routing.stream_progress import (
    ProgressReport,
    ProgressWatch,
    ReplicaProgress,
    WatchedAttempt,
)
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings

LIMITS = StallLimits.of(
    GatewaySettings(
        failures=FailureSettings(silence_s=30, first_silence_s=60),
        stall_timeout_s=120,
        first_byte_timeout_s=300,
    )
)


class Watched:
    """A watch that is asked every second of simulated time, as in the gateway."""

    def __init__(self) -> None:
        self.watch = ProgressWatch()
        self.now_s = 1000.0
        self.active_at_s: dict[str, float] = {}
        self.down: set[str] = set()
        self.stalled: list[str] = []

    def silences(self) -> list[Silence]:
        return silences([self.watch.report(self.now_s)], LIMITS, self.active_at_s, self.down)

    def wait(self, time_s: float) -> list[str]:
        """Let so much time pass; returns what is stalled then."""
        until_s = self.now_s + time_s
        while self.now_s < until_s:
            self.now_s = min(self.now_s + 1.0, until_s)
            self.stalled = [one.replica for one in self.silences() if one.is_too_long]
        return self.stalled

    def begin(self, name: str = "a", *, is_stream: bool = True) -> WatchedAttempt:
        return self.watch.began(name, self.now_s, is_stream=is_stream)

    def chunk(self, *streams: WatchedAttempt) -> None:
        for stream in streams:
            self.watch.note_bytes(stream, self.now_s)
            self.watch.note_sent(stream, self.now_s)

    def begun(self, num: int, name: str = "a") -> list[WatchedAttempt]:
        """Streams that have had their first bytes."""
        streams = [self.begin(name) for _ in range(num)]
        self.wait(0.1)
        self.chunk(*streams)
        return streams


def test_one_silent_stream_is_hung_after_the_time_set() -> None:
    watched = Watched()
    watched.begun(1)
    assert watched.wait(30.0) == []
    assert watched.wait(0.5) == ["a"]


def test_three_silent_streams_are_hung_after_a_third_of_it() -> None:
    watched = Watched()
    watched.begun(64)
    assert watched.wait(10.0) == []
    assert watched.wait(0.5) == ["a"]


def test_one_stream_that_moves_shows_that_the_engine_does() -> None:
    watched = Watched()
    first, *_ = watched.begun(64)
    for _ in range(60):
        watched.wait(5.0)
        watched.chunk(first)
        assert watched.stalled == []


def test_only_the_silent_replica_is_named() -> None:
    watched = Watched()
    watched.begun(3, "a")
    moving = watched.begun(3, "b")
    for _ in range(15):
        watched.wait(1.0)
        watched.chunk(*moving)
    assert watched.stalled == ["a"]


def test_prompts_that_are_computed_have_longer() -> None:
    watched = Watched()
    for _ in range(5):
        watched.begin()
    assert watched.wait(60.0) == []
    assert watched.wait(0.5) == ["a"]


def test_a_replica_that_is_slow_by_habit_is_given_four_times_its_longest_silence() -> None:
    watched = Watched()
    streams = watched.begun(3)
    watched.wait(8.0)
    watched.chunk(*streams)
    assert watched.wait(32.0) == []
    assert watched.wait(0.5) == ["a"]


def test_a_replica_that_is_down_is_not_given_more_time_for_its_habits() -> None:
    """A process that was stopped for 50 s and resumed may be stopped again."""
    watched = Watched()
    first = watched.begin()
    watched.wait(50.0)
    watched.chunk(first)
    watched.watch.ended(first)
    watched.begin()
    assert watched.wait(100.0) == []
    watched.down = {"b"}
    assert watched.wait(1.0) == []
    watched.down = {"a"}
    assert watched.wait(1.0) == ["a"]


def test_a_replica_is_judged_before_its_streams_reach_their_own_time_limit() -> None:
    watched = Watched()
    streams = watched.begun(1)
    for silence_s in (25.0, 80.0):
        watched.wait(silence_s)
        watched.chunk(*streams)
    assert watched.wait(90.0) == []
    assert watched.wait(0.5) == ["a"]


def test_a_long_silence_is_forgotten_after_ten_minutes() -> None:
    watched = Watched()
    streams = watched.begun(3)
    watched.wait(9.0)
    watched.chunk(*streams)
    for _ in range(700):
        watched.wait(1.0)
        watched.chunk(*streams)
    assert watched.wait(10.5) == ["a"]


def test_slow_prefills_do_not_excuse_silent_streams() -> None:
    watched = Watched()
    first = watched.begin()
    watched.wait(50.0)
    watched.chunk(first)
    watched.begun(3)
    assert watched.wait(10.5) == ["a"]


def test_clients_that_do_not_read_are_not_the_replicas_fault() -> None:
    watched = Watched()
    for stream in watched.begun(100):
        watched.watch.note_bytes(stream, watched.now_s)
    assert watched.wait(300.0) == []


def test_silence_begins_when_the_client_has_taken_what_came() -> None:
    watched = Watched()
    [stream] = watched.begun(1)
    watched.watch.note_bytes(stream, watched.now_s)
    watched.wait(100.0)
    watched.watch.note_sent(stream, watched.now_s)
    assert watched.wait(30.0) == []
    assert watched.wait(0.5) == ["a"]


def test_an_idle_replica_is_well_and_its_idle_time_does_not_count() -> None:
    watched = Watched()
    for stream in watched.begun(3):
        watched.watch.ended(stream)
    assert watched.wait(500.0) == []
    watched.begin()
    assert watched.wait(59.0) == []


def test_requests_that_keep_coming_do_not_hide_that_nothing_moves() -> None:
    watched = Watched()
    watched.begun(3)
    for _ in range(5):
        watched.wait(2.0)
        watched.begin()
    assert watched.wait(0.5) == ["a"]


def test_once_its_attempts_are_ended_it_is_named_no_more() -> None:
    watched = Watched()
    streams = [*watched.begun(3), watched.begin()]
    assert watched.wait(11.0) == ["a"]
    for stream in streams:
        watched.watch.ended(stream)
    assert watched.wait(1.0) == []


def test_time_in_which_the_gateway_stood_still_is_not_counted() -> None:
    watched = Watched()
    watched.begun(3)
    watched.wait(5.0)
    watched.now_s += 3600.0
    assert not any(one.is_too_long for one in watched.silences())
    assert watched.wait(4.0) == []
    assert watched.wait(2.0) == ["a"]


def test_replicas_that_left_are_forgotten() -> None:
    watched = Watched()
    [stream] = watched.begun(1)
    watched.watch.forget(["b"])
    assert watched.wait(500.0) == []
    watched.watch.ended(stream)


def test_answers_that_are_not_streamed_show_nothing_by_their_silence() -> None:
    watched = Watched()
    for _ in range(5):
        watched.begin(is_stream=False)
    assert watched.wait(60.5) == ["a"]
    assert [one.has_streams for one in watched.silences()] == [False]
    watched.begin()
    assert [one.has_streams for one in watched.silences()] == [True]


def test_an_engine_that_was_active_by_its_own_counters_has_the_whole_time_again() -> None:
    watched = Watched()
    watched.begun(3)
    watched.wait(10.0)
    watched.active_at_s = {"a": watched.now_s}
    assert watched.wait(10.0) == []
    assert watched.wait(0.5) == ["a"]


def test_streams_of_one_process_excuse_the_silence_of_another() -> None:
    """A hung replica is silent everywhere."""
    silent, moving = Watched(), Watched()
    silent.begun(3)
    [stream] = moving.begun(1)
    for _ in range(60):
        silent.wait(1.0)
        moving.wait(1.0)
        moving.chunk(stream)
        reports = [silent.watch.report(silent.now_s), moving.watch.report(moving.now_s)]
        assert [one.silent_for_s for one in silences(reports, LIMITS, {})] == [0.0]


def test_silent_streams_are_counted_over_all_processes() -> None:
    """Three streams in three processes are as strong evidence as three in one."""
    processes = [Watched() for _ in range(3)]
    for one in processes:
        one.begun(1)
        one.wait(10.5)
    reports = [one.watch.report(one.now_s) for one in processes]
    assert [one.is_too_long for one in silences(reports[:1], LIMITS, {})] == [False]
    assert [one.is_too_long for one in silences(reports, LIMITS, {})] == [True]


def test_time_after_the_oldest_report_is_not_counted_as_silence() -> None:
    """Bytes may have come since."""
    old, new = Watched(), Watched()
    old.begun(3)
    reports = [old.watch.report(old.now_s)]
    new.begun(3)
    new.wait(60.0)
    reports.append(new.watch.report(new.now_s))
    assert [one.silent_for_s for one in silences(reports, LIMITS, {})] == [0.0]


def test_the_silence_of_a_single_stream_by_value() -> None:
    progress = ReplicaProgress(num_listening=1, listening_since_s=0.25, bytes_at_s=0.125)
    assert silences([ProgressReport(20.25, {"a": progress})], LIMITS, {}) == [
        Silence("a", since_s=0.25, limit_s=30.0, silent_for_s=20.0, has_streams=True)
    ]


def test_the_silence_of_two_first_tokens_by_value() -> None:
    """They wait since 2 s and 3 s; bytes for other attempts came at 5 s. 4 · 20 s is the limit."""
    one = ReplicaProgress(num_first=1, first_since_s=2.0, bytes_at_s=5.0, longest_first_s=20.0)
    two = ReplicaProgress(num_first=1, first_since_s=3.0)
    reports = [ProgressReport(30.0, {"a": one}), ProgressReport(29.0, {"a": two})]
    assert silences(reports, LIMITS, {"a": 4.0}) == [
        Silence("a", since_s=5.0, limit_s=80.0, silent_for_s=24.0, has_streams=True)
    ]


def test_a_slow_first_token_is_given_three_quarters_of_its_own_limit() -> None:
    waiting = ReplicaProgress(num_first=1, longest_first_s=100.0)
    [silence] = silences([ProgressReport(1.0, {"a": waiting})], LIMITS, {})
    assert silence.limit_s == 0.75 * 300


def test_a_silence_is_too_long_once_its_limit_is_exceeded() -> None:
    assert not Silence("a", 0.0, 10.0, 10.0, has_streams=True).is_too_long
    assert Silence("a", 0.0, 10.0, 10.5, has_streams=True).is_too_long
