"""What a process reports about its attempts. `test_stall_detection` shows what follows from it."""

from __future__ import annotations

from paceline.gateway.routing.stream_progress import ProgressWatch, ReplicaProgress


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
