"""Read rule files of Prometheus and dashboards of Grafana."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.doctor.errors import DoctorError
from paceline.doctor.readings.monitors import (
    Monitor,
    MonitorFile,
    NoMonitors,
    monitors_of_dashboard,
    monitors_of_rules,
)
from paceline.strict_files import load_json, load_yaml_documents

MAX_FILE_BYTES = 16 * 2**20


def read_monitors(rules: Sequence[Path], dashboards: Sequence[Path]) -> tuple[MonitorFile, ...]:
    """The files, rules first. Raises DoctorError for one that is neither."""
    return (
        *(MonitorFile(str(file), _read(file, "rule file of Prometheus", _rules)) for file in rules),
        *(
            MonitorFile(str(file), _read(file, "dashboard of Grafana", _dashboard))
            for file in dashboards
        ),
    )


def _rules(text: str) -> tuple[Monitor, ...]:
    return monitors_of_rules(load_yaml_documents(text))


def _dashboard(text: str) -> tuple[Monitor, ...]:
    return monitors_of_dashboard(load_json(text))


def _read(file: Path, what: str, parse: Any) -> tuple[Monitor, ...]:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise DoctorError(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB")
        found: tuple[Monitor, ...] = parse(content.decode("utf-8"))
    except OSError as error:
        raise DoctorError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, NoMonitors) as error:
        raise DoctorError(f"{file} is no {what}: {' '.join(str(error).split())[:200]}") from error
    return found
