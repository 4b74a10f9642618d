"""`Deadline`: the moment by which the answer to a request must be complete, and its enforcement."""

from __future__ import annotations

import asyncio
import re
from types import TracebackType

from paceline.runtime.gateway.http.asgi import Scope, header
from paceline.runtime.gateway.http.errors import Refusal, deadline_exceeded, invalid
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.runtime.gateway.time_limits import MAX_REQUEST_TIMEOUT_MS

HEADER = "x-request-timeout-ms"
_DIGITS = re.compile(r"[0-9]{1,7}")


class Deadline:
    """A moment of the running loop's clock.

    As an async context manager, once, it ends its block with `Refusal` (504) when the moment comes.
    """

    __slots__ = ("_timeout", "at_s", "given_s")

    _timeout: asyncio.Timeout

    def __init__(self, given_s: float) -> None:
        """`given_s` from now."""
        self.given_s = given_s
        self.at_s = asyncio.get_running_loop().time() + given_s

    def left_s(self) -> float:
        """Seconds left; negative once the moment has passed."""
        return self.at_s - asyncio.get_running_loop().time()

    async def __aenter__(self) -> None:
        self._timeout = asyncio.timeout_at(self.at_s)
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Refusal(deadline_exceeded(self.given_s), Outcome.EXPIRED) from None


def deadline_of(scope: Scope, settings: AdmissionSettings) -> float:
    """Seconds from now until the answer must be complete; `Refusal` (400) for a bad header."""
    given = header(scope, HEADER.encode())
    if given is None:
        return settings.max_deadline_s
    if not _DIGITS.fullmatch(given) or not 1 <= int(given) <= MAX_REQUEST_TIMEOUT_MS:
        raise invalid(
            f"The header {HEADER} is {given[:40]!r}; it must be from 1 to "
            f"{MAX_REQUEST_TIMEOUT_MS}: the time that this request may take, in milliseconds.",
            HEADER,
        )
    return min(int(given) / 1000, settings.max_deadline_s)
