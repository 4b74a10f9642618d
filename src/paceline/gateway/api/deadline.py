"""How much time does a client give its request?"""

from __future__ import annotations

import asyncio
import re

from paceline.gateway.http.asgi import Scope, header
from paceline.gateway.http.errors import invalid
from paceline.gateway.settings import AdmissionSettings

HEADER = "x-request-timeout-ms"
MAX_TIMEOUT_MS = 3_600_000
_DIGITS = re.compile(r"[0-9]{1,7}")


class Deadline:
    """The moment by which an answer must be complete, of the running loop's clock."""

    def __init__(self, given_s: float) -> None:
        self.given_s = given_s
        self.at_s = asyncio.get_running_loop().time() + given_s

    def left_s(self) -> float:
        return self.at_s - asyncio.get_running_loop().time()


def deadline_of(scope: Scope, settings: AdmissionSettings) -> float:
    """Seconds from now until the answer must be complete; `Refusal` (400) for a bad header."""
    given = header(scope, HEADER.encode())
    if given is None:
        return settings.max_deadline_s
    if not _DIGITS.fullmatch(given) or not 1 <= int(given) <= MAX_TIMEOUT_MS:
        raise invalid(
            f"The header {HEADER} is {given[:40]!r}; allowed are 1 to {MAX_TIMEOUT_MS}, the "
            "milliseconds that this request may take.",
            HEADER,
        )
    return min(int(given) / 1000, settings.max_deadline_s)
