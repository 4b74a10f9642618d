"""Read rule files of Prometheus and dashboards of Grafana."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.readings.monitors import (
    Monitor,
    MonitorFile,
    monitors_of_dashboards,
    monitors_of_rules,
)
from paceline.operations.doctor.readings.resources import NoMonitors, read_text

MAX_FILE_BYTES = 16 * 2**20


def read_monitors(rules: Sequence[Path], dashboards: Sequence[Path]) -> tuple[MonitorFile, ...]:
    """The files, rules first. Raises DoctorError for one that is neither."""
    return (
        *(
            MonitorFile(str(file), _read(file, "rule file of Prometheus", monitors_of_rules))
            for file in rules
        ),
        *(
            MonitorFile(str(file), _read(file, "dashboard of Grafana", monitors_of_dashboards))
            for file in dashboards
        ),
    )


def _read(
    file: Path, what: str, monitors_of: Callable[[list[Any]], tuple[Monitor, ...]]
) -> tuple[Monitor, ...]:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise DoctorError(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB")
        found = monitors_of(read_text(content.decode("utf-8-sig")))
    except OSError as error:
        raise DoctorError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, NoMonitors) as error:
        raise DoctorError(f"{file} is no {what}: {' '.join(str(error).split())[:200]}") from error
    return found
