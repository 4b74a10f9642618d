"""The guard process: run one engine and end all its processes, however Paceline ends.

`python -m paceline.runtime.engine.process.guard --log FILE --run-folder DIR -- COMMAND…` runs
between Paceline and one engine. It leads the engine's process group and

- watches its standard input, a pipe that Paceline holds open. When a byte arrives (a clean stop) or
  the pipe closes (Paceline has ended, `kill -9` included), it sends the engine SIGTERM and, after a
  grace time, SIGKILL;
- kills what the engine left in the group when the server process ends, and exits with its code;
- adopts orphans of the engine, so that none becomes a child of process 1;
- writes the engine's output to a log of bounded size.

It imports nothing heavy, so it costs about 12 MB and starts at once.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from paceline.runtime.engine.launch.environment import SUPERVISED
from paceline.runtime.engine.process.parent_watch import adopt_orphans, die_with_parent

MAX_LOG_BYTES = 8 * 1024 * 1024
"""Size at which the log is rotated; one older part is kept."""
GRACE_S = 5.0
"""How long the engine may take to end after SIGTERM."""
STOPPED = (
    'guard: Paceline stopped the engine; errors that follow "shutdown triggered" are part of that'
)
"""The last line in the log of an engine that was stopped. vLLM's server ends its engine core first,
and then logs the traceback of a dead engine."""
_LIST_PERIOD_S = 2.0
"""Least time between two listings of the engine's processes. Chosen empirically: they are
long-lived."""


class BoundedLog:
    """A log file that never exceeds `max_bytes`; the previous part is kept as `….1`.

    Output that cannot be written (a full disk) is dropped, because a log must not stop a healthy
    engine. When writing works again, the log first says how many bytes were lost.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._num_lost_bytes = 0
        self._why_lost = ""

    def write(self, chunk: bytes) -> None:
        """Append `chunk`. Does not raise for errors of the file system."""
        try:
            if self._num_lost_bytes:
                self._append(
                    f"guard: {self._num_lost_bytes} bytes of output are lost here: "
                    f"{self._why_lost}\n".encode()
                )
                self._num_lost_bytes = 0
            self._append(chunk)
        except OSError as error:
            self._num_lost_bytes += len(chunk)
            self._why_lost = str(error)

    def _append(self, chunk: bytes) -> None:
        if self._file.closed:  # reopening it failed the last time
            self._file = self._path.open("ab", buffering=0)
        if self._file.tell() + len(chunk) > self._max_bytes:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._path.open("ab", buffering=0)
        self._file.write(chunk)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m paceline.runtime.engine.process.guard",
        description="Run one engine; end all its processes when standard input closes.",
    )
    parser.add_argument("--log", type=Path, required=True, help="file for the engine's output")
    parser.add_argument(
        "--run-folder",
        type=Path,
        help="the engine's folder, to be removed when Paceline has ended without removing it",
    )
    parser.add_argument("command", nargs="+", help="the engine's command line")
    options = parser.parse_args()
    # Only the pipe ends this process. Handlers instead of SIG_IGN, which the engine would inherit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    adopt_orphans()
    log = BoundedLog(options.log)
    engine = subprocess.Popen(
        options.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: die_with_parent({SUPERVISED: "1"}),  # safe: one thread here
    )
    pids = {engine.pid}
    try:
        owner_is_gone = _watch(engine, log, pids)
    finally:
        pids.update(_descendants(os.getpid()))
        is_stopped = engine.poll() is None
        _end(engine, log)
        if is_stopped:
            log.write(f"{STOPPED}\n".encode())
        for pid in pids:
            _remove_openmp_file(pid)
    if owner_is_gone and options.run_folder is not None:
        remove_run_folder(options.run_folder)
    return engine.returncode if engine.returncode >= 0 else 128 - engine.returncode


def remove_run_folder(folder: Path) -> None:
    """Remove an engine's folder, and the one around it if no other engine has a folder there."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def _remove_openmp_file(pid: int) -> None:
    """Remove the file in /dev/shm with which Intel's OpenMP registers a process until it exits."""
    for file in Path("/dev/shm").glob(f"__KMP_REGISTERED_LIB_{pid}_*"):
        with contextlib.suppress(OSError):
            file.unlink()


def _watch(engine: subprocess.Popen[bytes], log: BoundedLog, pids: set[int]) -> bool:
    """Copy output until the engine ends or must end; return whether Paceline has ended.

    Adds the engine's processes to `pids`, listed from time to time when it writes output.
    """
    assert engine.stdout is not None
    owner, output, ended = sys.stdin.fileno(), engine.stdout.fileno(), os.pidfd_open(engine.pid)
    poll = select.poll()
    for fd in (owner, output, ended):
        poll.register(fd, select.POLLIN)
    listed_at_s = -math.inf
    while True:
        for fd, _ in poll.poll():
            if fd == output:
                if time.monotonic() - listed_at_s > _LIST_PERIOD_S:
                    listed_at_s = time.monotonic()
                    pids.update(_descendants(os.getpid()))
                chunk = os.read(output, 65_536)
                if chunk:
                    log.write(chunk)
                else:
                    poll.unregister(output)
            elif fd == owner:
                return not os.read(owner, 1)
            elif fd == ended:
                return False


def _end(engine: subprocess.Popen[bytes], log: BoundedLog) -> None:
    """End the engine and all its descendants; return when all are reaped."""
    if engine.poll() is None:
        engine.terminate()
        _drain(engine, log, GRACE_S)
    for pid in _descendants(os.getpid()):
        _kill(pid)
    engine.wait()
    _drain(engine, log, 0.2)
    # Orphans have become children of this process. Continue until none is left, even as a zombie.
    deadline_s = time.monotonic() + GRACE_S
    while (left := list(_descendants(os.getpid()))) and time.monotonic() < deadline_s:
        for pid in left:
            _kill(pid)
        while _reap():
            pass
        time.sleep(0.01)


def _drain(engine: subprocess.Popen[bytes], log: BoundedLog, timeout_s: float) -> None:
    """Copy output until the engine has ended and its output is closed, at most `timeout_s`."""
    assert engine.stdout is not None
    output = engine.stdout.fileno()
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if select.select([output], [], [], 0.05)[0]:
            chunk = os.read(output, 65_536)
            if not chunk:
                break
            log.write(chunk)
        elif engine.poll() is not None:
            break
    if timeout_s and engine.poll() is None:
        try:
            engine.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.write(b"guard: the engine did not end within the grace time and is killed\n")


def _descendants(root: int) -> Iterator[int]:
    """Yield the descendants of `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_bytes()
            except OSError:  # it has ended
                continue
            # The name in parentheses may contain anything; the parent is the second field after it.
            children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(entry))
    todo = list(children.get(root, []))
    while todo:
        pid = todo.pop()
        yield pid
        todo += children.get(pid, [])


def _reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
