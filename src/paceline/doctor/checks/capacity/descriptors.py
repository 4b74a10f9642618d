"""`descriptors`: the server's process is close to its limit on open files."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.doctor.checks.check import Check
from paceline.doctor.readings.observation import Observation
from paceline.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost

_NEARLY_ALL = 0.8
_FEW = 4096
"""Every stream takes one descriptor, and vLLM itself some hundred."""


def _judge(observation: Observation) -> Sequence[Finding]:
    page = observation.last.page
    most, used = page.total("process_max_fds"), page.total("process_open_fds")
    if most is None or used is None:
        raise CannotJudge("the server does not show its open files and their limit")
    is_near = used >= _NEARLY_ALL * most
    if not is_near and most >= _FEW:
        return ()
    return [
        Finding(
            id="descriptors-nearly-used" if is_near else "descriptors-few",
            severity=Severity.WARNING if is_near else Severity.INFO,
            summary=f"The server may open {most:.0f} files at once and has {used:.0f} open.",
            evidence=(Evidence("open files", used), Evidence("limit", most)),
            cost=unknown_cost("nothing until the limit is reached; then connections are refused"),
            cause="Every connection takes a file descriptor.",
            remedy="Raise the limit to 65535",
            settings=("ulimit -n", "LimitNOFILE"),
        )
    ]


CHECK = Check(
    "descriptors",
    "a limit on open files that connections reach",
    ("descriptors-nearly-used", "descriptors-few"),
    _judge,
)
