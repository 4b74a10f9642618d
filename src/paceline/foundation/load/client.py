"""Send one streamed completion and record when its chunks arrive.

A failure of the server or the network does not raise: it is the outcome of the record. Cancellation
propagates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from paceline.foundation.load.chunks import read_chunk
from paceline.foundation.load.records import DraftCounts, RequestOutcome, RequestRecord
from paceline.foundation.load.sse import SseDecoder
from paceline.foundation.workloads import RequestSpec

Clock = Callable[[], float]
_MAX_ERROR_CHARS = 300


@dataclass(slots=True)
class _StreamState:
    """What one stream has delivered so far."""

    keeps_text: bool = False
    text: list[str] = field(default_factory=list)
    """Pieces of the answer; only if a later turn needs them."""
    chunk_times_s: list[float] = field(default_factory=list)
    finish_s: float | None = None
    is_done: bool = False
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    drafts: DraftCounts | None = None


class _RequestFailed(Exception):
    def __init__(self, outcome: RequestOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class StreamingClient:
    """Sends requests to one server over a session that the caller owns and closes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: URL,
        api_key: str | None,
        timeout_s: float,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._session = session
        self._server = server
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout_s = timeout_s
        self._clock = clock
        self._keeps_connections = True
        session.trace_configs.append(_noting_reuse())

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        """Send now and read the stream to its end.

        `scheduled_s` is when the request was due, counted from the clock reading `zero_s`.
        """
        state = _StreamState(keeps_text=spec.next_turn is not None)
        outcome, message = RequestOutcome.OK, None
        sent_s = self._clock() - zero_s
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._stream(spec, state, zero_s)
        except _RequestFailed as failure:
            outcome, message = failure.outcome, str(failure)
        except TimeoutError:
            outcome, message = (
                RequestOutcome.TIMEOUT,
                f"the stream did not end within {self._timeout_s:g} s (--timeout)",
            )
        except (aiohttp.ClientError, OSError) as error:
            outcome, message = RequestOutcome.CONNECTION, f"{type(error).__name__}: {error}"
        finished_s = state.finish_s
        if finished_s is None or outcome is not RequestOutcome.OK:
            finished_s = self._clock() - zero_s
        return RequestRecord(
            index=spec.index,
            task=spec.task,
            scheduled_s=scheduled_s,
            sent_s=sent_s,
            chunk_times_s=tuple(state.chunk_times_s),
            finished_s=finished_s,
            outcome=outcome,
            prompt_tokens=state.prompt_tokens,
            output_tokens=state.output_tokens,
            error=None if message is None else message[:_MAX_ERROR_CHARS],
            turn=spec.turn,
            request_id=spec.request_id,
            asked_input_tokens=spec.asked_input_tokens,
            asked_output_tokens=spec.asked_output_tokens,
            drafts=state.drafts,
            answer="".join(state.text) if state.keeps_text else None,
        )

    async def _stream(self, spec: RequestSpec, state: _StreamState, zero_s: float) -> None:
        url = self._server.join(URL(spec.path))
        headers = self._headers
        if spec.request_id is not None:
            headers = {**headers, "X-Request-Id": spec.request_id}
        async with await self._post(url, spec.body, headers) as response:
            if response.status != 200:
                body = await response.content.read(4096)
                raise _RequestFailed(
                    RequestOutcome.HTTP_ERROR, f"status {response.status}: {_message_of(body)}"
                )
            decoder = SseDecoder()
            async for data in response.content.iter_any():
                arrived_s = self._clock() - zero_s
                try:
                    for event in decoder.feed(data):
                        _record_event(event, arrived_s, state)
                except (ValueError, msgspec.MsgspecError) as error:
                    raise _RequestFailed(
                        RequestOutcome.STREAM_ERROR, f"cannot parse the stream: {error}"
                    ) from error
        if not state.is_done and state.finish_s is None:
            raise _RequestFailed(
                RequestOutcome.TRUNCATED,
                f"the stream ended after {len(state.chunk_times_s)} chunks without [DONE]",
            )

    async def _post(
        self, url: URL, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send the request, again if the server had closed the kept connection that it was sent on.

        llama.cpp's server closes every connection after a streamed answer. From the first such
        request on, each opens a connection of its own; those that are still kept are used up.
        """
        while True:
            sent = _Sent()
            if not self._keeps_connections:
                headers = {**headers, "Connection": "close"}
            try:
                return await self._session.post(
                    url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=sent
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not sent.on_kept_connection:
                    raise
                self._keeps_connections = False


@dataclass(slots=True)
class _Sent:
    """How a request was sent."""

    on_kept_connection: bool = False


def _noting_reuse() -> aiohttp.TraceConfig:
    """Notes in the `_Sent` of a request that its connection had served another one."""

    async def note(_: aiohttp.ClientSession, context: Any, __: Any) -> None:
        sent = context.trace_request_ctx
        if isinstance(sent, _Sent):
            sent.on_kept_connection = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    config.freeze()
    return config


def _record_event(event: bytes, arrived_s: float, state: _StreamState) -> None:
    if event == b"[DONE]":
        state.is_done = True
        return
    chunk = read_chunk(event)
    if chunk.error is not None:
        raise _RequestFailed(
            RequestOutcome.STREAM_ERROR, f"error in the stream: {_text_of(chunk.error)}"
        )
    if chunk.prompt_tokens is not None:
        state.prompt_tokens = chunk.prompt_tokens
    if chunk.output_tokens is not None:
        state.output_tokens = chunk.output_tokens
    state.drafts = chunk.drafts or state.drafts
    if chunk.has_content:
        state.chunk_times_s.append(arrived_s)
    if state.keeps_text and chunk.text:
        state.text.append(chunk.text)
    if chunk.is_last:
        state.finish_s = arrived_s


def _message_of(body: bytes) -> str:
    """The message of an OpenAI error object, else the body as text."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body.decode("utf-8", "replace")
    return _text_of(document.get("error", document) if isinstance(document, dict) else document)


def _text_of(error: object) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return str(error)
