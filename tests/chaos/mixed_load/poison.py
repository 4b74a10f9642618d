"""A second tenant whose requests make engines fail: they get their error, whatever else happens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from chaos.expected_requests import CHAT
from chaos.fleet import MODEL, Fleet
from chaos.transcript import Ending, Transcript, send_request
from paceline.testing.mock_vllm import Answer, encode_chat, expected_answer

REFUSED, BROKEN = "POISON", "VENOM"
"""Words of prompts: the engine answers with a 500, or with an error after some tokens."""
FAULTS: list[dict[str, Any]] = [
    {"kind": "status", "status": 500, "containing": REFUSED},
    {"kind": "error_event", "after_tokens": 3, "containing": BROKEN},
]
NUM_SENDERS = 8
_PERIOD_S = 0.3
"""Of each sender: some 25 requests/s in all."""
_BROKEN_EVERY = 8
_MAX_TOKENS = 100
"""More than all attempts together send of an answer, three each."""
_LAST_REQUESTS_S = 120.0
_SERVER_ERRORS = range(500, 600)


@dataclass
class PoisonReport:
    """What became of the poison. The field names are keys of the results."""

    num_requests: int = 0
    endings: dict[str, int] = field(default_factory=dict)
    """How many ended in which way, such as `refused 500`."""
    errors: list[str] = field(default_factory=list)
    """Poison that did not get its error."""

    def note(self, word: str, number: int, transcript: Transcript) -> None:
        """Count and judge one request."""
        status = f" {transcript.status}" if transcript.ending is Ending.REFUSED else ""
        self.num_requests += 1
        ending = f"{transcript.ending}{status}"
        self.endings[ending] = self.endings.get(ending, 0) + 1
        self.errors += [
            f"{transcript.request_id}: {error}" for error in errors_in(word, number, transcript)
        ]


def errors_in(word: str, number: int, transcript: Transcript) -> list[str]:
    """What is wrong with the answer to the poison of this number."""
    if transcript.ending is Ending.REFUSED:
        is_right = transcript.status in _SERVER_ERRORS and transcript.error is not None
        return [] if is_right else [f"status {transcript.status}, {transcript.error}"]
    if transcript.ending is not Ending.ERROR_EVENT or word == REFUSED:
        return [f"{transcript.ending}: status {transcript.status}, {transcript.text[:40]!r}"]
    is_beginning = _whole_answer(number).text.startswith(transcript.text)
    return [] if is_beginning else [f"text {transcript.text!r} before the error"]


@contextlib.asynccontextmanager
async def poisoning(
    fleet: Fleet, key: str, num_senders: int = NUM_SENDERS, *, name: str = "poison"
) -> AsyncIterator[PoisonReport]:
    """Send poison with this key until the block ends; then its last requests have ended too."""
    report, is_over = PoisonReport(), asyncio.Event()

    async def send(session: aiohttp.ClientSession, sender: int) -> None:
        number = sender
        while not is_over.is_set():
            begun_s = time.monotonic()
            word = _word(number, num_senders)
            request_id = f"{name}-{number}"
            transcript = await send_request(
                session, fleet.gateway.url + CHAT, _body(word, number), request_id, key
            )
            report.note(word, number, transcript)
            number += num_senders
            with contextlib.suppress(TimeoutError):
                left_s = max(0.0, begun_s + _PERIOD_S - time.monotonic())
                await asyncio.wait_for(is_over.wait(), left_s)

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        senders = [asyncio.create_task(send(session, n)) for n in range(num_senders)]
        try:
            yield report
        finally:
            is_over.set()
            async with asyncio.timeout(_LAST_REQUESTS_S):
                await asyncio.gather(*senders)


def _word(number: int, num_senders: int) -> str:
    """Most are refused at once; only long answers are broken, before they could be complete."""
    is_broken = number // num_senders % _BROKEN_EVERY == 0
    is_long = is_broken and len(_whole_answer(number).ids) == _MAX_TOKENS
    return BROKEN if is_long else REFUSED


def _whole_answer(number: int) -> Answer:
    """The answer that an engine breaks off."""
    content = _content(BROKEN, number)
    prompt = encode_chat([("user", content)], add_generation_prompt=True)
    return expected_answer(prompt, _MAX_TOKENS)


def _content(word: str, number: int) -> str:
    return f"{word} {number}"


def _body(word: str, number: int) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": _content(word, number)}],
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": number % 2 == 0,
    }
