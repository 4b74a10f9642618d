"""Read a server repeatedly over a window."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.operations.doctor.readings.observation import Reading

_MAX_PERIOD_S = 1.0
_MIN_READINGS = 8
NUM_FAILURES_OF_LOST = 2
"""One may be a page that took too long."""


@dataclass(slots=True)
class Watch:
    """What was read. Filled while `watch` runs, so that an interruption leaves a part."""

    readings: list[Reading] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why readings failed."""
    num_last_failures: int = 0
    """Failures after the last reading."""

    def add(self, reading: Reading) -> None:
        """Note a reading. Of those between the first and the last only engines are kept."""
        if len(self.readings) > 1:
            self.readings[-1] = self.readings[-1].thinned()
        self.readings.append(reading)
        self.num_last_failures = 0

    def add_failure(self, why: str) -> None:
        """Note that a reading failed."""
        self.failures.append(why)
        self.num_last_failures += 1

    @property
    def lost(self) -> str | None:
        """Why the server could not be read at the end, twice or more; None if it could."""
        return self.failures[-1] if self.num_last_failures >= NUM_FAILURES_OF_LOST else None


async def watch(server: ObservedServer, into: Watch, stop: asyncio.Event, seconds: float) -> None:
    """Read at least twice: for `seconds`, or longer until `stop` is set.

    A failure at the end is confirmed by another reading.
    """
    period_s = min(_MAX_PERIOD_S, seconds / _MIN_READINGS)
    start_s = time.monotonic()
    while True:
        begun_s = time.monotonic()
        try:
            into.add(await server.read())
        except ReadingFailed as failure:
            into.add_failure(str(failure))
        elapsed_s = time.monotonic() - start_s
        is_certain = not 0 < into.num_last_failures < NUM_FAILURES_OF_LOST
        if elapsed_s >= seconds and stop.is_set() and is_certain:
            return
        await asyncio.sleep(max(0.0, period_s - (time.monotonic() - begun_s)))


def require_two(watch: Watch) -> None:
    """Raise DoctorError if the server could not be read often enough."""
    if len(watch.readings) < 2:
        why = watch.failures[-1] if watch.failures else "the observation was interrupted"
        raise DoctorError(f"the server was read {len(watch.readings)} times, two are needed: {why}")
