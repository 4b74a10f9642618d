"""Which unit a trace's times have: as its form states it, checked against the trace's duration.

A number of a trace may be seconds, milliseconds or Unix time. Read in the wrong unit, a trace is
replayed a thousand times too fast or too slow, and every figure of the run is one of another load.
So nothing is guessed: without a statement, or against the duration, the user is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.foundation.workloads.fields import WorkloadError
from paceline.foundation.workloads.recorded.forms import TimeUnit, TraceForm

MAX_UNIX_RATE_PER_S = 100.0
"""Mean rate above which it is doubted that times are Unix time; a form states its own limit."""
MIN_RATE_PER_S = 0.001
"""Mean rate below which a unit is doubted: one request in 17 minutes."""
_YEAR_2000_S = 946_684_800
_YEAR_2100_S = 4_102_444_800
_ADVICE = "give the unit with --trace-unit (s, ms, us or ns)"


def decide_unit(
    times: Sequence[float], form: TraceForm | None, time_name: str, where: str
) -> TimeUnit:
    """The unit of these times, all numbers of the field `time_name`.

    Raises WorkloadError, which begins with `where`, when the form states no unit, or when the
    duration or a Unix time in another unit speaks against it.
    """
    if min(times) == max(times):
        return TimeUnit.S  # All at once, in any unit.
    unit = unix_unit(min(times))
    if form is not None and form.has_whole_times and any(time != int(time) for time in times):
        form = None
    source, max_rate_per_s = "as Unix time", MAX_UNIX_RATE_PER_S
    if form is not None and form.unit is not None:
        if unit is not None and unit is not form.unit:
            raise WorkloadError(
                f"{where}: {time_name} is in {form.unit.label} in the traces of {form.name}, but "
                f"its first value, {min(times):.15g}, is Unix time in {unit.label}. Its "
                f"{len(times)} requests take {_readings(times, (form.unit, unit))}; {_ADVICE}"
            )
        unit, max_rate_per_s = form.unit, form.max_rate_per_s
        source = f"as in the traces of {form.name}"
    if unit is None:
        raise WorkloadError(
            f"{where}: {time_name} is a number, and nothing in the file states its unit. Its "
            f"{len(times)} requests take {_readings(times, (TimeUnit.S, TimeUnit.MS))}; {_ADVICE}, "
            "or name the field at_s and give seconds"
        )
    what = f"{where}: read in {unit.label}, {source}, {time_name}"
    _check_rate(times, unit, max_rate_per_s, what)
    return unit


def unix_unit(first: float) -> TimeUnit | None:
    """The unit in which the earliest time of a trace is a moment of this century; None if it is
    none, but counts from the start of the trace.

    >>> unix_unit(1_700_000_000_000), unix_unit(27_482)
    (<TimeUnit.MS: 0.001>, None)
    """
    units = (unit for unit in TimeUnit if _YEAR_2000_S <= first * unit.value < _YEAR_2100_S)
    return next(units, None)


def _check_rate(times: Sequence[float], unit: TimeUnit, max_rate_per_s: float, what: str) -> None:
    duration_s = (max(times) - min(times)) * unit.value
    rate = (len(times) - 1) / duration_s
    if not MIN_RATE_PER_S <= rate <= max_rate_per_s:
        raise WorkloadError(
            f"{what} gives {len(times)} requests in {_duration(times, unit)}, {rate:.4g} "
            f"requests/s on average, which a recording hardly has (allowed: {MIN_RATE_PER_S:g} to "
            f"{max_rate_per_s:g}); {_ADVICE} to confirm it or to set another"
        )


def _readings(times: Sequence[float], units: Sequence[TimeUnit]) -> str:
    return ", or ".join(f"{_duration(times, unit)} if they are {unit.label}" for unit in units)


def _duration(times: Sequence[float], unit: TimeUnit) -> str:
    return f"{(max(times) - min(times)) * unit.value:.4g} s"
