"""What a process reports about its attempts. `test_stall_detection` shows what follows from it."""

from __future__ import annotations

from paceline.runtime.gateway.routing.stream_progress import (
    ProgressWatch,
    ReplicaProgress,
    _RecentMaximum,
)


def test_each_kind_of_attempt_is_counted_until_it_ends() -> None:
    watch = ProgressWatch()
    whole = watch.began("a", 1.0, is_stream=False)
    stream = watch.began("a", 2.0, is_stream=True)
    other = watch.began("a", 3.0, is_stream=True)
    expected = ReplicaProgress(num_first=2, num_whole=1, first_since_s=2.0, whole_since_s=1.0)
    assert watch.report(3.0).replicas == {"a": expected}
    watch.note_bytes(stream, 4.0)
    watch.note_sent(stream, 5.0)
    after = watch.report(5.0).replicas["a"]
    assert (after.num_first, after.num_listening, after.num_whole) == (1, 1, 1)
    assert (after.listening_since_s, after.bytes_at_s, after.longest_first_s) == (5.0, 4.0, 2.0)
    for attempt in (whole, stream, other):
        watch.ended(attempt)
    last = watch.report(6.0).replicas["a"]
    assert (last.num_first, last.num_listening, last.num_whole) == (0, 0, 0)


def test_time_in_which_the_process_was_suspended_is_skipped() -> None:
    watch = ProgressWatch()
    watch.began("a", 1.0, is_stream=True)
    watch.report(2.0)
    report = watch.report(102.0)
    assert (report.at_s, report.replicas["a"].first_since_s) == (102.0, 101.0)


def test_a_replica_whose_attempts_have_ended_has_the_progress_of_an_idle_one() -> None:
    watch = ProgressWatch()
    for is_stream in (True, False):
        watch.ended(watch.began("a", 0.0, is_stream=is_stream))
    assert watch.report(0.0).replicas == {"a": ReplicaProgress()}


def test_an_attempt_may_end_while_the_client_receives_its_bytes() -> None:
    watch = ProgressWatch()
    sending, waiting = (watch.began("a", 0.0, is_stream=True) for _ in range(2))
    watch.note_bytes(sending, 1.0)
    watch.note_bytes(sending, 1.5)
    watch.ended(sending)
    progress = watch.report(2.0).replicas["a"]
    assert (progress.num_first, progress.num_listening) == (1, 0)
    watch.ended(waiting)
    assert watch.report(2.0).replicas["a"].num_first == 0


def test_a_stream_is_counted_once_however_its_events_are_cut() -> None:
    """Bytes that complete no event are not sent, so there is no `note_bytes` before `note_sent`."""
    watch = ProgressWatch()
    stream, other = (watch.began("a", 0.0, is_stream=True) for _ in range(2))
    watch.note_sent(other, 0.5)
    watch.note_bytes(stream, 1.0)
    for now_s in (1.0, 2.0, 3.0):
        watch.note_sent(stream, now_s)
    progress = watch.report(4.0).replicas["a"]
    assert (progress.num_first, progress.num_listening) == (1, 1)
    assert progress.listening_since_s == 1.0
    watch.ended(stream)
    assert watch.report(5.0).replicas["a"].num_listening == 0


def test_an_answer_that_has_arrived_waits_for_nothing() -> None:
    watch = ProgressWatch()
    stream, whole = (watch.began("a", 0.0, is_stream=is_stream) for is_stream in (True, False))
    watch.note_bytes(stream, 1.0)
    watch.note_sent(stream, 1.0)
    for attempt in (stream, stream, whole):
        watch.note_complete(attempt)
    progress = watch.report(2.0).replicas["a"]
    assert (progress.num_first, progress.num_listening, progress.num_whole) == (0, 0, 0)
    for attempt in (stream, whole):
        watch.ended(attempt)
    assert watch.report(3.0).replicas["a"].num_listening == 0


def test_the_longest_silence_is_that_of_all_streams_of_a_replica() -> None:
    watch = ProgressWatch()
    one, two = (watch.began("a", 0.0, is_stream=True) for _ in range(2))
    watch.note_bytes(one, 3.0)
    watch.note_bytes(two, 4.0)  # 1 s after the bytes of the other
    watch.note_sent(one, 5.0)
    watch.note_sent(two, 5.5)
    watch.note_bytes(one, 9.0)  # 4 s after the first of them listened
    watch.note_sent(one, 9.0)
    watch.note_bytes(two, 11.0)  # 2 s after the bytes of the other
    progress = watch.report(11.0).replicas["a"]
    assert (progress.longest_first_s, progress.longest_s) == (3.0, 4.0)


def test_the_longest_value_is_kept_for_one_to_two_periods_of_five_minutes() -> None:
    """The first period begins with the first value."""
    longest = _RecentMaximum()
    seen = []
    for value, now_s in ((4.0, 4.0), (0.5, 303.5), (0.25, 304.0), (0.75, 603.5), (0.5, 604.0)):
        longest.note(value, now_s)
        seen.append(longest.value)
    assert seen == [4.0, 4.0, 4.0, 4.0, 0.75]


def test_a_report_may_be_five_seconds_late() -> None:
    watch = ProgressWatch()
    stream = watch.began("a", 1.0, is_stream=True)
    watch.report(2.0)
    assert watch.report(7.0).replicas["a"].first_since_s == 1.0
    assert watch.report(12.5).replicas["a"].first_since_s == 6.5
    watch.note_bytes(stream, 13.0)
    watch.note_sent(stream, 13.5)
    moved = watch.report(20.0).replicas["a"]
    assert (moved.bytes_at_s, moved.listening_since_s) == (20.5, 21.0)


def test_replicas_that_left_are_reported_no_more() -> None:
    watch = ProgressWatch()
    attempts = [watch.began(name, 0.0, is_stream=True) for name in ("a", "b")]
    watch.forget(["b", "c"])
    assert list(watch.report(1.0).replicas) == ["b"]
    for attempt in attempts:
        watch.ended(attempt)
