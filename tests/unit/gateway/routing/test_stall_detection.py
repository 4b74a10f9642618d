"""Finding replicas that are hung."""

from __future__ import annotations

from paceline.gateway.routing.stall_detection import ProgressWatch, WatchedStream
from paceline.gateway.settings import FailureSettings

SETTINGS = FailureSettings(silence_s=30, first_silence_s=60)


class Watched:
    """A watch that is called every second of simulated time, as in the gateway."""

    def __init__(self) -> None:
        self.watch = ProgressWatch(SETTINGS, stall_timeout_s=120, first_byte_timeout_s=300)
        self.now_s = 1000.0
        self.stalled: list[str] = []

    def wait(self, time_s: float) -> list[str]:
        """Let so much time pass; returns what is stalled then."""
        until_s = self.now_s + time_s
        while self.now_s < until_s:
            self.now_s = min(self.now_s + 1.0, until_s)
            self.stalled = self.watch.stalled(self.now_s)
        return self.stalled

    def begin(self, name: str = "a") -> WatchedStream:
        return self.watch.began(name, self.now_s)

    def chunk(self, *streams: WatchedStream) -> None:
        for stream in streams:
            self.watch.note_bytes(stream, self.now_s)
            self.watch.note_sent(stream, self.now_s)

    def begun(self, num: int, name: str = "a") -> list[WatchedStream]:
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


def test_the_deadline_of_a_single_stream_is_the_ceiling() -> None:
    watched = Watched()
    streams = watched.begun(1)
    for silence_s in (25.0, 80.0):
        watched.wait(silence_s)
        watched.chunk(*streams)
    assert watched.wait(120.0) == []
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
    assert watched.watch.stalled(watched.now_s) == []
    assert watched.wait(4.0) == []
    assert watched.wait(2.0) == ["a"]


def test_replicas_that_left_are_forgotten() -> None:
    watched = Watched()
    [stream] = watched.begun(1)
    watched.watch.forget(["b"])
    assert watched.wait(500.0) == []
    watched.watch.ended(stream)
