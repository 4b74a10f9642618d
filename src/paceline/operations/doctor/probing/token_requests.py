"""`TokenRequests`: completions of prompts with a given number of tokens."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import aiohttp

from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.load import ProbeLoad
from paceline.operations.doctor.probing.settings import ProbeSettings

_NUM_TEXTS = 16
_TIMEOUT = aiohttp.ClientTimeout(total=60)


class TokenRequests:
    """Prompts are made of the token ids of the workload's texts, at its temperature.

    Every method raises NotMeasured if the server does not answer as vLLM does.
    """

    def __init__(
        self, session: aiohttp.ClientSession, settings: ProbeSettings, load: ProbeLoad
    ) -> None:
        self._session, self._settings, self._load = session, settings, load
        self._ids: list[int] = []
        self._random = random.Random()
        self.mean_prompt_tokens = 0
        """Of the workload, once `read_prompts` has returned."""

    async def read_context_tokens(self) -> int:
        """The longest context of the model."""
        document = await self._exchange("GET", "models", None)
        entries = document.get("data")
        found = [
            entry.get("max_model_len")
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and entry.get("id") == self._load.model
        ]
        if not found or not isinstance(found[0], int):
            raise NotMeasured("the server does not list the context length of its model")
        return found[0]

    async def read_prompts(self) -> None:
        """Let the server tokenize some prompts of the workload."""
        body = {
            "model": self._load.model,
            "prompt": list(self._load.texts[:_NUM_TEXTS]),
            "max_tokens": 1,
            "return_token_ids": True,
        }
        document = await self._exchange("POST", "completions", body)
        choices = document.get("choices")
        texts = [
            choice["prompt_token_ids"]
            for choice in (choices if isinstance(choices, list) else ())
            if isinstance(choice, dict) and isinstance(choice.get("prompt_token_ids"), list)
        ]
        self._ids = list(itertools.chain.from_iterable(texts))
        if not self._ids:
            raise NotMeasured("the server does not return the token ids of prompts")
        self.mean_prompt_tokens = math.ceil(len(self._ids) / len(texts))

    async def send(self, prompts_tokens: Sequence[int], max_tokens: int) -> None:
        """Prompts of these lengths at once; wait for the answers, which have no end before.

        Prompts of one length are equal, and longer ones begin with shorter ones.
        """
        prompts = [
            list(itertools.islice(itertools.cycle(self._ids), num)) for num in prompts_tokens
        ]
        await self._complete(prompts, max_tokens)

    async def send_ahead(self, prompt_tokens: int) -> None:
        """One prompt that no cache holds, for one token."""
        await self._complete([self._random.choices(self._ids, k=prompt_tokens)], 1)

    async def _complete(self, prompts: list[list[int]], max_tokens: int) -> None:
        body = {
            "model": self._load.model,
            "prompt": prompts,
            "max_tokens": max_tokens,
            "temperature": self._load.temperature,
            "ignore_eos": True,
        }
        self._load.num_requests += len(prompts)
        await self._exchange("POST", "completions", body)

    async def _exchange(
        self, method: str, page: str, body: dict[str, Any] | None
    ) -> dict[str, Any]:
        """The document that a page of the API answers with."""
        address = self._settings.data_url / "v1" / page
        key = self._settings.api_key
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        try:
            async with self._session.request(
                method, address, json=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                document = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotMeasured(f"{address} failed ({error or type(error).__name__})") from error
        if response.status != 200 or not isinstance(document, dict):
            raise NotMeasured(f"{address} answered with status {response.status}")
        return document
