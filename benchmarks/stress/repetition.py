"""One run of a command beside a busy core, while its processes are stopped at random."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.stress.stops import stop_random_descendant

TEST_RESULTS = Path("build/test-results")
"""Where `scripts/run-group.sh` records how each group ended."""


@dataclass(frozen=True, slots=True)
class Stress:
    """What happens beside a run."""

    stopped_s: float = 0.5
    period_s: float = 2.0
    """From one stop to the next, on average."""
    is_core_busy: bool = True


@dataclass(frozen=True, slots=True)
class Repetition:
    """How one run ended."""

    seconds: float
    exit_status: int | None
    """None: it was ended at its time limit."""
    num_stops: int
    failed: dict[str, list[str]]
    """By group, as pytest names the tests; without names for a group that ended otherwise."""

    @property
    def is_green(self) -> bool:
        return self.exit_status == 0 and not self.failed


def run_once(command: Sequence[str], stress: Stress, limit_s: float, seed: int) -> Repetition:
    """Run the command from here, and wait for its end; all of its processes end with this call."""
    shutil.rmtree(TEST_RESULTS, ignore_errors=True)
    chance, began_s, num_stops = random.Random(seed), time.monotonic(), 0
    with contextlib.ExitStack() as stack:
        if stress.is_core_busy:
            stack.enter_context(_busy_core())
        process = subprocess.Popen(command, start_new_session=True)
        stack.callback(_end, process)
        next_stop_s = began_s
        while process.poll() is None and time.monotonic() - began_s < limit_s:
            if time.monotonic() >= next_stop_s:
                num_stops += stop_random_descendant(process.pid, stress.stopped_s, chance)
                next_stop_s = time.monotonic() + chance.uniform(0, 2) * stress.period_s
            time.sleep(0.05)
        exit_status = process.poll()
    seconds = round(time.monotonic() - began_s, 1)
    return Repetition(seconds, exit_status, num_stops, failed_tests(TEST_RESULTS))


def failed_tests(folder: Path) -> dict[str, list[str]]:
    """The failed tests of each group that failed."""
    failed = {}
    for record in sorted(folder.glob("[!.]*.txt")):
        status, *tests = record.read_text().splitlines()
        if status != "0":
            failed[record.stem] = tests
    return failed


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and everything it started, if it still runs."""
    if process.poll() is not None:
        return
    root = psutil.Process(process.pid)
    all_of_it = [root, *root.children(recursive=True)]
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    for one in all_of_it:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


@contextlib.contextmanager
def _busy_core() -> Iterator[None]:
    spinner = multiprocessing.get_context("fork").Process(
        target=_spin, args=(os.getpid(),), daemon=True
    )
    spinner.start()
    try:
        yield
    finally:
        spinner.kill()
        spinner.join()


def _spin(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        for _ in range(1_000_000):
            pass
