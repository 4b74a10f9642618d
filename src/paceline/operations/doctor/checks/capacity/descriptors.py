"""`descriptors`: the server's process is close to its limit on open files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost

_NEARLY_ALL = 0.8
_FEW = 4096
"""Every stream takes one descriptor, and vLLM itself some hundred."""


@dataclass(frozen=True, slots=True)
class _Process:
    """A process with its open files."""

    name: str
    used: float
    most: float

    @property
    def share(self) -> float:
        return self.used / self.most


def _judge(observation: Observation) -> Sequence[Finding]:
    processes = list(_processes(observation.last.page))
    if not processes:
        raise CannotJudge("the server does not show its open files and their limit")
    process = max(processes, key=lambda one: one.share)
    is_near = process.share >= _NEARLY_ALL
    if not is_near and process.most >= _FEW:
        return ()
    return [
        Finding(
            id="descriptors-nearly-used" if is_near else "descriptors-few",
            severity=Severity.WARNING if is_near else Severity.INFO,
            summary=f"{process.name} may open {process.most:.0f} files at once and has "
            f"{process.used:.0f} open.",
            evidence=(Evidence("open files", process.used), Evidence("limit", process.most)),
            cost=unknown_cost("nothing until the limit is reached; then connections are refused"),
            cause="Every connection takes a file descriptor.",
            remedy="Raise the limit to 65535",
            settings=("ulimit -n", "LimitNOFILE"),
        )
    ]


def _processes(page: MetricsPage) -> Iterator[_Process]:
    """That of a vLLM server, or the gateway and its workers."""
    used, most = page.total("process_open_fds"), page.total("process_max_fds")
    if used is not None and most:
        yield _Process("The server", used, most)
    for name in page.label_values("paceline_open_files", "process"):
        used = page.total("paceline_open_files", process=name)
        most = page.total("paceline_open_files_limit", process=name)
        if used is not None and most:
            yield _Process(f"The process {name}", used, most)


CHECK = Check(
    "descriptors",
    "a limit on open files that connections reach",
    ("descriptors-nearly-used", "descriptors-few"),
    _judge,
)
