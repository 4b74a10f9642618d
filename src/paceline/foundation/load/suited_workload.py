"""The workload of a measurement for which none was given: prompts that the served model is for."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from yarl import URL

from paceline.foundation.named_models import BUNDLED_NAME

_TIMEOUT = aiohttp.ClientTimeout(total=60)
"""A server may compile for its first request."""
_REFUSES_CHATS = (400, 404, 405, 501)
"""Statuses of servers without a chat template, or without the route."""


@dataclass(frozen=True, slots=True)
class SuitedWorkload:
    """A built-in workload, and why it is used."""

    name: str
    reason: str
    """One clause, for the report."""


def choose_workload(model: str, chat_status: int | None = None) -> SuitedWorkload:
    """The workload for a model of this id.

    `chat_status` is what the server answered to a chat; None if it was not asked or did not answer.

    >>> choose_workload("smollm2-135m-instruct", 200).name, choose_workload("base-model", 400).name
    ('chat', 'code')
    """
    if model == BUNDLED_NAME:
        return SuitedWorkload("mixed", "the model is the bundled code model")
    if chat_status in _REFUSES_CHATS:
        return SuitedWorkload(
            "code", f"the server answers chats with status {chat_status}, as without a template"
        )
    if chat_status == 200:
        return SuitedWorkload("chat", "the model answers chats")
    return SuitedWorkload("chat", "it is not known whether the model answers chats")


async def find_suited_workload(
    session: aiohttp.ClientSession, server: URL, api_key: str | None, model: str
) -> SuitedWorkload:
    """Ask the server for a chat of one token, and choose. Never raises for what it answers: the
    first request of the measurement shows what is wrong."""
    if model == BUNDLED_NAME:
        return choose_workload(model)
    body = {
        "model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    try:
        async with session.post(
            server / "v1" / "chat" / "completions",
            json=body,
            headers=headers,
            timeout=_TIMEOUT,
            allow_redirects=False,
        ) as response:
            return choose_workload(model, response.status)
    except (aiohttp.ClientError, TimeoutError):
        return choose_workload(model)
