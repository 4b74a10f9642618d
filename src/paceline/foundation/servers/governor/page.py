"""Read and change governors over the admin port, bounded in time and size."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.governor.settings import (
    SettingRefused,
    SwitchUnavailable,
    states_by_name,
)

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_MAX_ANSWER_BYTES = 8 * 2**20
"""As an answer of 100 replicas with all their counters has below 1 MB."""
_MAX_MESSAGE_CHARACTERS = 500


class GovernorPage:
    """GET and PATCH /admin/governor, and GET /admin/replicas."""

    def __init__(self, session: aiohttp.ClientSession, admin: URL, key: str | None) -> None:
        self._session = session
        self.url = admin / "admin" / "governor"
        self._replicas_url = admin / "admin" / "replicas"
        self._headers = {"Authorization": f"Bearer {key}"} if key is not None else {}

    async def states(self) -> dict[str, Mapping[str, Any] | str]:
        """Of each replica the state, or why there is none. Raises SwitchUnavailable."""
        return states_by_name(await self._exchange("GET", self.url, None))

    async def entries(self) -> dict[str, Mapping[str, Any]]:
        """The entries of /admin/replicas by name; empty for a server without that page.

        Raises SwitchUnavailable.
        """
        document = await self._exchange("GET", self._replicas_url, None, may_lack=True)
        listed = document.get("replicas") if isinstance(document, dict) else None
        entries: Sequence[object] = listed if isinstance(listed, list) else ()
        return {str(one.get("name")): one for one in entries if isinstance(one, dict)}

    async def send(self, change: Mapping[str, object], replica: str) -> None:
        """Change one governor. Raises SwitchUnavailable; it may have been changed then, too.

        Raises SettingRefused if the server says that the change is at fault.
        """
        await self._exchange("PATCH", self.url.with_query(replica=replica), change)

    def command(self, change: Mapping[str, object], replica: str) -> str:
        """The shell command that makes this change."""
        key = ' -H "Authorization: Bearer $PACELINE_ADMIN_KEY"' if self._headers else ""
        return (
            f"curl -X PATCH {shlex.quote(str(self.url.with_query(replica=replica)))} "
            f"-H 'content-type: application/json'{key} -d {shlex.quote(json.dumps(change))}"
        )

    async def _exchange(
        self, method: str, page: URL, body: Mapping[str, object] | None, may_lack: bool = False
    ) -> object:
        try:
            async with self._session.request(
                method, page, json=body, headers=self._headers, timeout=_TIMEOUT,
                allow_redirects=False,
            ) as response:  # fmt: skip
                answer = bytearray()
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > _MAX_ANSWER_BYTES:
                        raise SwitchUnavailable(
                            f"{page} answered with more than {_MAX_ANSWER_BYTES >> 20} MiB"
                        )
        except (aiohttp.ClientError, OSError) as error:
            raise SwitchUnavailable(
                f"cannot reach {page}: {error or type(error).__name__}"
            ) from error
        if may_lack and response.status == 404:
            return None
        if response.status != 200:
            message = _message(answer)
            if method == "PATCH" and response.status == 400:
                raise SettingRefused(message or f"{page} answered with status 400")
            raise SwitchUnavailable(
                f"{method} {page} answered with status {response.status}"
                f"{f': {message}' if message else ''}"
            )
        try:
            document: object = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise SwitchUnavailable(f"{page} answered without JSON: {error}") from error
        return document


def _message(answer: bytearray) -> str:
    """The message of an error of the gateway; empty for an answer of another form."""
    try:
        return printable(json.loads(answer)["error"]["message"])[:_MAX_MESSAGE_CHARACTERS]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
