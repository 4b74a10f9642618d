"""Check an engine's health, read what it serves and warm it up, over its Unix socket."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

_WARM_UP_TIMEOUT_S = 120.0
_WARM_UP_PROMPT = "def add(a, b):\n    return a + b\n\n\ndef add(a, b):\n"
"""Repeats itself, so that n-gram drafters find matches too."""
_WARM_UP_REQUESTS: tuple[Mapping[str, Any], ...] = (
    {"temperature": 0, "max_tokens": 24, "logprobs": 0},
    {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 1, "max_tokens": 24},
)
"""Greedy and sampled, sent one by one and then concurrently: they run the shapes and code paths of
the first client requests. On GPUs vLLM compiles a kernel at the first request with log
probabilities; under load the engine could count as hung meanwhile."""
_WARM_UP_CONCURRENCY = 4
_AMPLE_MODEL_LEN = 128
"""Prompt and answer fit into this with any tokenizer: the prompt has 50 bytes."""
_SHORT_PROMPT = "a"
_REVISION = re.compile(r'^paceline_engine_revision_info\{[^}\n]*revision="([^"\n]+)"', re.MULTILINE)
_OWN_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""A connection failed because this process or machine has no descriptor or memory left."""


class EngineProbeFailed(Exception):
    """The engine did not answer as a healthy engine does."""


class EngineProbeNotSent(EngineProbeFailed):
    """This process could not open a connection: the engine's state is unknown."""


class EngineProbe:
    """Sends requests to one engine. Use as an async context manager."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def __aenter__(self) -> EngineProbe:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self._socket)), base_url="http://engine"
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def check_health(self, timeout_s: float) -> None:
        """Raise EngineProbeFailed unless the engine is healthy."""
        try:
            async with self._session.get(
                "/health", timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as response:
                if response.status != 200:
                    raise EngineProbeFailed(f"/health answered with status {response.status}")
        except TimeoutError:
            raise EngineProbeFailed(f"/health did not answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            is_own = isinstance(error, OSError) and error.errno in _OWN_ERRNOS
            failure = EngineProbeNotSent if is_own else EngineProbeFailed
            raise failure(f"/health cannot be reached: {error}") from None

    async def fetch_max_model_len(self) -> int | None:
        """Return the context length in tokens; None if the engine does not report it."""
        try:
            async with self._session.get(
                "/v1/models", timeout=aiohttp.ClientTimeout(total=10)
            ) as response:
                models = (await response.json())["data"]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError) as error:
            raise EngineProbeFailed(f"/v1/models failed: {error!r}") from None
        length = models[0].get("max_model_len") if models else None
        return length if isinstance(length, int) else None

    async def fetch_revision(self) -> str | None:
        """Return the fingerprint of the model (`engine.front_end`); None if it reports none."""
        try:
            async with self._session.get(
                "/metrics", timeout=aiohttp.ClientTimeout(total=10)
            ) as response:
                found = _REVISION.search(await response.text())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EngineProbeFailed(f"/metrics failed: {error!r}") from None
        return None if found is None else found[1]

    async def fetch_version(self) -> str | None:
        """Return the version of its vLLM; None if it reports none."""
        try:
            async with self._session.get(
                "/version", timeout=aiohttp.ClientTimeout(total=10)
            ) as response:
                version = (await response.json())["version"]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, LookupError, TypeError):
            return None  # no request depends on it
        return version if isinstance(version, str) else None

    async def warm_up(self, model: str, max_model_len: int | None) -> None:
        """Send the warm-up requests and wait for them; raise EngineProbeFailed if one fails."""
        requests = warm_up_requests(max_model_len)
        for request in requests:
            await self._complete(model, request)
        await asyncio.gather(
            *(
                self._complete(model, requests[index % len(requests)])
                for index in range(_WARM_UP_CONCURRENCY)
            )
        )

    async def _complete(self, model: str, request: Mapping[str, Any]) -> None:
        body = {"model": model, **request}
        try:
            async with self._session.post(
                "/v1/completions",
                json=body,
                timeout=aiohttp.ClientTimeout(total=_WARM_UP_TIMEOUT_S),
            ) as response:
                if response.status != 200:
                    raise EngineProbeFailed(
                        f"a warm-up request was answered with status {response.status}: "
                        f"{(await response.text())[:500]}"
                    )
                await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EngineProbeFailed(f"a warm-up request failed: {error!r}") from None


def warm_up_requests(max_model_len: int | None) -> list[dict[str, Any]]:
    """Return the warm-up requests, shortened to fit this context length."""
    if max_model_len is None or max_model_len >= _AMPLE_MODEL_LEN:
        return [{"prompt": _WARM_UP_PROMPT, **request} for request in _WARM_UP_REQUESTS]
    return [
        {
            "prompt": _SHORT_PROMPT,
            **request,
            # The other half is for the prompt: one letter and the tokenizer's special tokens.
            "max_tokens": min(request["max_tokens"], max_model_len // 2),
        }
        for request in _WARM_UP_REQUESTS
    ]
