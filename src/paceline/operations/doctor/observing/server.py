"""`ObservedServer`: reads of one server, bounded in time and size."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.servers.default_addresses import ADMIN_PORT, at_port
from paceline.foundation.servers.metrics_page import MetricsPage, PageUnreadable, parse_page
from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.readings.engines import governors_on
from paceline.operations.doctor.readings.observation import Reading
from paceline.operations.monitoring.vllm_names import are_of_an_engine

MAX_PAGE_BYTES = 16 * 2**20
"""vLLM's page has some hundred kilobytes, a gateway's with 100 replicas below 1 MB."""
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class ReadingFailed(Exception):
    """One reading could not be made. The message says why."""


class ServerUnreachable(ReadingFailed):
    """Nothing answered."""


class ObservedServer:
    """A vLLM server, or the admin port of a Paceline gateway, over a session of the caller."""

    def __init__(self, session: aiohttp.ClientSession, url: URL, key: str | None) -> None:
        self._session = session
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self.kind = ""
        """paceline or vllm, once `identify` has returned."""

    async def identify(self) -> None:
        """Find out what it is. Raises DoctorError if it shows no metrics of vLLM or Paceline."""
        page_url = self.url / "metrics"
        try:
            page = await self._page()
        except ServerUnreachable as failure:
            raise DoctorError(
                f"{failure}. Give a vLLM server or the admin port of a running paceline serve, by "
                f"default {at_port(str(self.url), ADMIN_PORT)}; --log FILE needs no server"
            ) from failure
        except ReadingFailed as failure:
            raise DoctorError(f"{failure}{await self._hint()}") from failure
        kind = page.kind
        if kind is None:
            raise DoctorError(
                f"{page_url} shows no metric of vLLM or Paceline; the metrics of other servers are "
                "read only through Paceline: give the admin port of a gateway before it"
            )
        if kind == "vllm" and not are_of_an_engine(page.declared | page.samples.keys()):
            shown = next(name for name in page.samples if name.startswith("vllm:"))
            raise DoctorError(
                f"{page_url} shows {shown} and no metric that only an engine has (such as "
                "vllm:generation_tokens_total): it is of a router, or of another program before "
                "vLLM. Give the URL of a vLLM server that it sends requests to"
            )
        self.kind = kind

    async def read(self) -> Reading:
        """One reading. Raises ReadingFailed."""
        page = await self._page()
        at_s = time.monotonic()
        if self.kind != "paceline":
            return Reading(at_s, page, governors_on(page))
        governors = await self._document("/admin/governor")
        replicas = (await self._document("/admin/replicas")).get("replicas")
        return Reading(
            at_s,
            page,
            governor_states(governors),
            tuple(one for one in replicas if isinstance(one, dict))
            if isinstance(replicas, list)
            else (),
        )

    async def _hint(self) -> str:
        """What the server may be instead; empty if it does not say."""
        try:
            models = await self._document("/v1/models")
            owner = models["data"][0]["owned_by"]
        except (ReadingFailed, KeyError, IndexError, TypeError):
            return ""
        if owner == "paceline":
            return (
                ". This is the data port of a Paceline gateway: give its admin port, by default "
                f"{at_port(str(self.url), ADMIN_PORT)}"
            )
        return f". Its models are owned by {str(owner)[:40]!r}: it may not be a vLLM server"

    async def _page(self) -> MetricsPage:
        body = await self._get("/metrics")
        try:
            return parse_page(body.decode("utf-8", "replace"))
        except PageUnreadable as error:
            raise ReadingFailed(f"{self.url / 'metrics'} cannot be read: {error}") from error

    async def _document(self, path: str) -> dict[str, Any]:
        body = await self._get(path)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ReadingFailed(f"{self._address(path)} did not answer with JSON") from error
        return document if isinstance(document, dict) else {}

    async def _get(self, path: str) -> bytes:
        address = self._address(path)
        try:
            async with self._session.get(
                address, headers=self._headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status in (401, 403):
                    raise ReadingFailed(
                        f"{address} answered with status {response.status}: it needs a key, or "
                        "another one (--admin-key)"
                    )
                if response.status != 200:
                    raise ReadingFailed(f"{address} answered with status {response.status}")
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > MAX_PAGE_BYTES:
                        raise ReadingFailed(
                            f"{address} answered with more than {MAX_PAGE_BYTES >> 20} MiB"
                        )
                return bytes(body)
        except TimeoutError as error:
            raise ReadingFailed(f"{address} did not answer within {_TIMEOUT.total:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ServerUnreachable(
                f"{address} cannot be reached ({error or type(error).__name__})"
            ) from error

    def _address(self, path: str) -> URL:
        return self.url.with_path(path)


def governor_states(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The states in an answer of /admin/governor; replicas without a governor are left out."""
    replicas = document.get("replicas")
    if not isinstance(replicas, dict):
        return {}
    return {
        str(name): state
        for name, state in replicas.items()
        if isinstance(state, dict) and "policy" in state
    }
