"""Switch a Paceline's speculation off and back on through its admin port.

The policy of every replica is read before, and set again on exit, whatever happens in between. If
an operator gave a policy parameters at run time, they return to those of the configuration: the
admin port does not report them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_NUM_ATTEMPTS = 3
_BETWEEN_ATTEMPTS_S = 0.5


class SwitchUnavailable(Exception):
    """Speculation cannot be switched. The message says why."""


@dataclass(frozen=True, slots=True)
class _Restoration:
    replica: str
    change: Mapping[str, object]


class GovernorSwitch:
    """The governors of one admin port."""

    def __init__(self, session: aiohttp.ClientSession, admin: URL, key: str | None) -> None:
        self._session = session
        self._page = admin / "admin" / "governor"
        self._headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self._restorations: list[_Restoration] = []

    async def turn_off(self) -> None:
        """Hold all governors at draft length 0."""
        await self.apply({"draft_length": 0})

    async def apply(
        self, change: Mapping[str, object], replicas: Sequence[str] | None = None
    ) -> None:
        """Send a change to these governors, by default to all. `turn_on` takes it back."""
        for replica in (None,) if replicas is None else replicas:
            await self._send(change, replica)

    def keep(self) -> None:
        """Leave the governors as they are now: nothing is set back any more."""
        self._restorations = []

    async def turn_on(self) -> None:
        """Set every governor's policy as it was."""
        for one in self._restorations:
            await self._send(one.change, one.replica)

    async def read(self) -> None:
        """Note the policies in force. Raises SwitchUnavailable if there is nothing to switch."""
        document = await self._exchange("GET", self._page, None)
        replicas = document.get("replicas") if isinstance(document, dict) else None
        states = replicas if isinstance(replicas, dict) else {}
        for name, answer in states.items():
            state = _state_of(answer)
            if state is not None:
                self._restorations.append(_Restoration(name, restoring_change(state)))
        if not self._restorations:
            raise SwitchUnavailable(f"{self._page} reports no governor: the server does not draft")

    async def _send(self, change: Mapping[str, object], replica: str | None) -> None:
        page = self._page if replica is None else self._page.with_query(replica=replica)
        await self._exchange("PATCH", page, change)

    async def _exchange(self, method: str, page: URL, body: Mapping[str, object] | None) -> object:
        try:
            async with self._session.request(
                method, page, json=body, headers=self._headers, timeout=_TIMEOUT
            ) as response:
                if response.status != 200:
                    raise SwitchUnavailable(
                        f"{method} {page} answered with status {response.status}"
                    )
                return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SwitchUnavailable(
                f"cannot reach {page}: {error or type(error).__name__}"
            ) from error


def restoring_change(state: Mapping[str, Any]) -> dict[str, object]:
    """The change that gives a governor in another state the policy of this one.

    >>> restoring_change({"policy": "goodput", "draft_length": 3})
    {'policy': 'goodput'}
    >>> restoring_change({"policy": "fixed", "draft_length": 3})
    {'draft_length': 3}
    """
    if state["policy"] == "fixed":
        return {"draft_length": state["draft_length"]}
    return {"policy": state["policy"]}


@contextlib.asynccontextmanager
async def switchable_governor(
    session: aiohttp.ClientSession, admin: URL, key: str | None
) -> AsyncIterator[GovernorSwitch]:
    """A switch that is back on when the context ends, also by cancellation.

    Raises SwitchUnavailable if there is nothing to switch, or if it could not be switched back.
    """
    switch = GovernorSwitch(session, admin, key)
    await switch.read()
    try:
        yield switch
    finally:
        restoring = asyncio.ensure_future(_restore(switch))
        try:
            await asyncio.shield(restoring)
        except asyncio.CancelledError:
            await restoring
            raise


async def _restore(switch: GovernorSwitch) -> None:
    """Set the policies as they were; a server under load gets several attempts."""
    for attempt in range(1, _NUM_ATTEMPTS + 1):
        try:
            await switch.turn_on()
            return
        except SwitchUnavailable as failure:
            if attempt == _NUM_ATTEMPTS:
                raise SwitchUnavailable(
                    f"speculation could not be switched back on ({failure}); set the policy with "
                    "PATCH /admin/governor"
                ) from failure
            await asyncio.sleep(_BETWEEN_ATTEMPTS_S)


def _state_of(answer: object) -> Mapping[str, Any] | None:
    """The state in one replica's answer, or None if it has no governor."""
    if isinstance(answer, dict):
        for state in (answer, answer.get("state")):
            if isinstance(state, dict) and "policy" in state and "draft_length" in state:
                return state
    return None
