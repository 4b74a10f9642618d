"""The requests of a quick measurement, in a form that the server accepts.

Chats are tried first, with a `cache_salt` of their own each, so that repeated prompts are not
answered from the prefix cache. Servers that refuse the salt get none; models without a chat
template get the text of the chat as a plain prompt.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_spec

_MIN_TIMEOUT_S = 0.001
_NOT_READY = re.compile(r"status 50[234]\b")
"""Of a server without a ready engine, or of a proxy that does not reach it."""
_FIRST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RequestForm:
    """What the server accepts."""

    as_chat: bool
    with_salt: bool


class SessionSender:
    """A `DeadlineSender` over one HTTP session."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: URL,
        api_key: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._session, self._server, self._api_key, self._clock = session, server, api_key, clock

    async def send_until(
        self, spec: RequestSpec, scheduled_s: float, zero_s: float, deadline_s: float
    ) -> RequestRecord:
        """See `DeadlineSender`."""
        timeout_s = max(_MIN_TIMEOUT_S, deadline_s - (self._clock() - zero_s))
        client = StreamingClient(self._session, self._server, self._api_key, timeout_s, self._clock)
        return await client.send(spec, scheduled_s, zero_s)

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        """Send and await the end, as a `Sender`."""
        return await self.send_until(
            spec, scheduled_s, zero_s, self._clock() - zero_s + _FIRST_TIMEOUT_S
        )


async def find_form(
    sender: SessionSender,
    prompts: Sequence[Prompt],
    sampling: SamplingSettings,
    clock: Callable[[], float],
) -> RequestForm:
    """The first form that the server answers. Raises BenchError if it answers none.

    An answer that the server is not ready comes before what it refuses, and ends the search.
    """
    forms = [
        RequestForm(as_chat, with_salt) for as_chat in (True, False) for with_salt in (True, False)
    ]
    if prompts[0].messages is None:
        forms = forms[2:]
    failures = []
    for form in forms:
        record = await sender.send(next(build_forever(prompts, sampling, form)), 0.0, clock())
        if record.is_ok:
            return form
        if record.outcome is RequestOutcome.TIMEOUT:
            raise BenchError(
                f"an answer of {sampling.max_tokens} tokens did not end within "
                f"{_FIRST_TIMEOUT_S:g} s; give --max-tokens less"
            )
        failures.append(str(record.error))
        if _NOT_READY.match(failures[-1]):
            raise BenchError(
                f"the server is not ready, or still starts: {failures[-1]} Wait until it answers "
                "requests (/ready of Paceline, /health of vLLM), then repeat the command"
            )
    raise BenchError(f"the server answers no request: {'; '.join(dict.fromkeys(failures))}")


def build_forever(
    prompts: Sequence[Prompt], sampling: SamplingSettings, form: RequestForm
) -> Iterator[RequestSpec]:
    """Requests without end, in this form; prompts repeat."""
    run = uuid.uuid4().hex
    for index, prompt in enumerate(itertools.cycle(prompts)):
        chosen = prompt if form.as_chat else _without_chat(prompt)
        salted = sampling
        if form.with_salt:
            extra = {**sampling.extra_body, "cache_salt": f"quick-{run}-{index}"}
            salted = SamplingSettings(
                sampling.model, sampling.temperature, sampling.top_p, sampling.max_tokens,
                sampling.seed, extra,
            )  # fmt: skip
        yield build_spec(chosen, salted, index)


def as_text(prompt: Prompt) -> str:
    """The text of a prompt; of a chat, the contents of its messages."""
    if prompt.messages is None:
        return prompt.text or ""
    return "\n\n".join(str(message.get("content", "")) for message in prompt.messages)


def _without_chat(prompt: Prompt) -> Prompt:
    if prompt.messages is None:
        return prompt
    return Prompt(prompt.task, None, as_text(prompt), prompt.max_tokens)
