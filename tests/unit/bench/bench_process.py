"""A command of Paceline in a process of its own, which tests interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from polling import wait_until

_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended."""

    exit_code: int
    output: str
    errors: str


def start_bench(*words: str) -> subprocess.Popen[str]:
    """Start `paceline bench` with these arguments."""
    return start_paceline("bench", *words)


def start_paceline(*words: str) -> subprocess.Popen[str]:
    """Start `paceline` with these arguments."""
    return _start("-c", "from paceline.cli import main; main()", *words)


def start_module(module: str, *words: str) -> subprocess.Popen[str]:
    """Start a module that is a program, with these arguments."""
    return _start("-m", module, *words)


def _start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def interrupt(
    process: subprocess.Popen[str],
    when: Callable[[], bool],
    number: signal.Signals = signal.SIGINT,
) -> Ended:
    """Send the signal as soon as the condition holds; returns when the process has ended.

    Raises `TimeoutError` if the condition does not hold in time, and
    `subprocess.TimeoutExpired` if the process does not end.
    """
    try:
        wait_for(when, process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=_WITHIN_S)
    finally:
        process.kill()  # it still runs only if this fails
    return Ended(process.returncode, output, errors)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Return once the condition holds. Raises `TimeoutError`, and when the process has ended."""

    def holds() -> bool:
        is_met = condition()
        if not is_met and process.poll() is not None:
            raise RuntimeError(f"it exited with {process.returncode}: {process.communicate()}")
        return is_met

    wait_until(holds, _WITHIN_S)
