"""Read a server repeatedly over a window."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from paceline.doctor.errors import DoctorError
from paceline.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.doctor.readings.observation import Reading

_MAX_PERIOD_S = 1.0
_MIN_READINGS = 8


@dataclass(slots=True)
class Watch:
    """What was read. Filled while `watch` runs, so that an interruption leaves a part."""

    readings: list[Reading] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why readings failed."""


async def watch(server: ObservedServer, into: Watch, stop: asyncio.Event, seconds: float) -> None:
    """Read at least twice: for `seconds`, or longer until `stop` is set."""
    period_s = min(_MAX_PERIOD_S, seconds / _MIN_READINGS)
    start_s = time.monotonic()
    while True:
        begun_s = time.monotonic()
        try:
            into.readings.append(await server.read())
        except ReadingFailed as failure:
            into.failures.append(str(failure))
        elapsed_s = time.monotonic() - start_s
        if elapsed_s >= seconds and stop.is_set():
            return
        await asyncio.sleep(max(0.0, period_s - (time.monotonic() - begun_s)))


def require_two(watch: Watch) -> None:
    """Raise DoctorError if the server could not be read often enough."""
    if len(watch.readings) < 2:
        why = watch.failures[-1] if watch.failures else "the observation was interrupted"
        raise DoctorError(f"the server was read {len(watch.readings)} times, two are needed: {why}")
