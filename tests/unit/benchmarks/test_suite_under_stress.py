"""The suite under stress: what is stopped, what is continued, and what is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from polling import wait_until

from benchmarks.stress import repetition
from benchmarks.stress.repetition import Repetition, Stress, failed_tests, run_once
from benchmarks.stress.stops import stop_for
from benchmarks.suite_under_stress import render

FOREVER = [sys.executable, "-c", "import signal; signal.pause()"]
NO_STRESS = Stress(period_s=1000.0, is_core_busy=False)


@pytest.fixture
def child() -> Iterator[psutil.Popen]:
    with psutil.Popen(FOREVER) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def is_stopped(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_STOPPED)


@contextmanager
def stopped(process: psutil.Popen) -> Iterator[None]:
    """The process is stopped by `stop_for` until the block ends."""
    reader, writer = os.pipe()
    results = list[bool]()

    def stop() -> None:
        results.append(stop_for(process.pid, os.getpid(), 0, lambda _: os.read(reader, 1)))

    stopping = threading.Thread(target=stop)
    stopping.start()
    wait_until(lambda: is_stopped(process))
    yield
    os.write(writer, b"x")
    stopping.join()
    assert results == [True]


def test_a_descendant_is_stopped_and_continued(child: psutil.Popen) -> None:
    with stopped(child):
        pass
    wait_until(lambda: not is_stopped(child))


def test_a_process_of_others_is_never_stopped(child: psutil.Popen) -> None:
    with psutil.Popen(FOREVER) as other:
        try:
            assert not stop_for(child.pid, other.pid, 60)
            assert not stop_for(os.getppid(), os.getpid(), 60)
        finally:
            other.kill()
    assert not is_stopped(child)


def test_a_process_that_has_ended_is_not_stopped(child: psutil.Popen) -> None:
    child.kill()
    child.wait()
    assert not stop_for(child.pid, os.getpid(), 60)


def test_a_process_that_a_test_stops_meanwhile_stays_stopped(child: psutil.Popen) -> None:
    with stopped(child):
        child.suspend()
    assert is_stopped(child)


def test_a_process_is_continued_although_the_one_that_stops_it_is_killed() -> None:
    program = (
        "import os, subprocess, sys; from benchmarks.stress.stops import stop_for\n"
        f"child = subprocess.Popen({FOREVER!r}); print(child.pid, flush=True)\n"
        "stop_for(child.pid, os.getpid(), 0, lambda _: os.read(int(sys.argv[1]), 1))"
    )
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(reader)], cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE, text=True, pass_fds=[reader],
    ) as stopper:  # fmt: skip
        assert stopper.stdout is not None
        stopped = psutil.Process(int(stopper.stdout.readline()))
        try:
            wait_until(lambda: is_stopped(stopped))
            stopper.kill()
            stopper.wait()
            os.write(writer, b"x")
            wait_until(lambda: not is_stopped(stopped))
        finally:
            stopped.kill()


def test_a_process_is_continued_although_it_stops_late(child: psutil.Popen) -> None:
    """The signal to stop may still be on its way when the time is over."""
    for _ in range(20):
        assert stop_for(child.pid, os.getpid(), 0.0)
        wait_until(lambda: not is_stopped(child))


def test_a_run_is_ended_with_all_its_processes_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["bash", "-c", "sleep 1000 & echo $! > new; mv new pid; wait"]
    monkeypatch.setattr(
        repetition, "stop_random_descendant", lambda *_: wait_until((tmp_path / "pid").exists)
    )
    ended = run_once(command, NO_STRESS, limit_s=3.0, seed=0)
    assert (ended.exit_status, ended.is_green) == (None, False)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_run_counts_its_stops_and_names_its_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = "mkdir -p build/test-results; printf '1\\nFAILED a.py::test\\n'"
    waits = "until [ -e go ]; do sleep 0.01; done"
    command = ["bash", "-c", f"{waits}; {record} > build/test-results/unit.txt; exit 2"]
    (tmp_path / "build/test-results").mkdir(parents=True)
    (tmp_path / "build/test-results/earlier.txt").write_text("1\n")

    def stop(*_: object) -> bool:
        (tmp_path / "go").touch()
        return True

    monkeypatch.setattr(repetition, "stop_random_descendant", stop)
    ended = run_once(command, Stress(), limit_s=60.0, seed=0)
    assert (ended.exit_status, ended.failed) == (2, {"unit": ["FAILED a.py::test"]})
    assert ended.num_stops > 0


def test_groups_that_failed_are_read_from_their_records(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("0\n")
    (tmp_path / "crashed.txt").write_text("137\n")
    assert failed_tests(tmp_path) == {"crashed": []}
    assert failed_tests(tmp_path / "missing") == {}


def test_a_repetition_in_words() -> None:
    assert render(1, Repetition(61.2, 0, 30, {})) == "1: green, 61 s, 30 stops"
    assert render(2, Repetition(5.0, 2, 3, {"unit": ["FAILED a.py::b"], "site": []})) == (
        "2: exit status 2, 5 s, 3 stops\n    unit: FAILED a.py::b\n"
        "    site: failed without naming a test"
    )
    assert render(3, Repetition(9.0, None, 0, {})).startswith("3: ended at its time limit")
