"""The failed attempts that a gateway wrote into its log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"request (\S+): replica (\S+): (\w+): (.*); next: (\w+), (\w+)")


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One attempt that failed, and what the gateway did next."""

    replica: str
    outcome: str
    detail: str
    step: str
    """A `Step` of the gateway's failure policy, or `closed`."""
    reason: str


def read_failed_attempts(log: Path) -> Mapping[str, Sequence[FailedAttempt]]:
    """The failed attempts of every request, by request id; in order."""
    attempts: defaultdict[str, list[FailedAttempt]] = defaultdict(list)
    for line in log.read_text(errors="replace").splitlines():
        found = _LINE.search(line)
        if found:
            attempts[found[1]].append(FailedAttempt(*found.group(2, 3, 4, 5, 6)))
    return attempts
