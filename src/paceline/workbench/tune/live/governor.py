"""Set the draft length of a running server through the admin port of Paceline."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from yarl import URL

from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.governor.switch import restoring_change
from paceline.workbench.tune.values import TuneError

_TIMEOUT = aiohttp.ClientTimeout(total=10)


class GovernorControl:
    """The governors of one server. They have the policy of the configuration at first."""

    def __init__(self, session: aiohttp.ClientSession, admin: URL) -> None:
        self._session = session
        self._page = admin / "admin" / "governor"
        self._configured: Mapping[str, object] | None = None

    async def hold(self, draft_length: int | None) -> None:
        """Hold all replicas at a draft length; None returns them to the configured policy.

        Raises TuneError if the server has no governor or refuses the length, and BenchError if it
        cannot be reached.
        """
        if self._configured is None:
            self._configured = await self._read_policy()
        change = self._configured if draft_length is None else {"draft_length": draft_length}
        await self._exchange("PATCH", change)

    async def _read_policy(self) -> Mapping[str, object]:
        document = await self._exchange("GET", None)
        replicas = document.get("replicas") if isinstance(document, dict) else None
        for state in (replicas or {}).values():
            if isinstance(state, dict) and "policy" in state and "draft_length" in state:
                return restoring_change(state)
        raise TuneError(
            f"{self._page} reports no governor, so draft lengths cannot be set on this server; "
            "give live.draft_length: [policy] (--space)"
        )

    async def _exchange(self, method: str, body: Mapping[str, object] | None) -> object:
        try:
            async with self._session.request(
                method, self._page, json=body, timeout=_TIMEOUT
            ) as response:
                if response.status != 200:
                    text = (await response.text())[:300]
                    raise TuneError(
                        f"{method} {self._page} {body or ''} answered with status "
                        f"{response.status}: {text}"
                    )
                document: object = await response.json(content_type=None)
                return document
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise BenchError(
                f"cannot reach {self._page}: {error or type(error).__name__}"
            ) from error
