"""`Attempt`: one exchange with one replica, from the request sent to the last byte of the answer.

A good answer goes to the client as it arrives. A failure is reported only to the caller, which may
try another replica. The replica's time limits are enforced here.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from paceline.runtime.gateway.delivered import NOTHING, AnswerPart
from paceline.runtime.gateway.http.byte_budget import ReservedBytes
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.http.sse import Relay
from paceline.runtime.gateway.http.whole_answer import error_in, looks_whole
from paceline.runtime.gateway.proxy.attempt_end import (
    COMPLETED,
    AttemptEnd,
    exchange_failed,
    timed_out,
    too_large,
    too_slow,
)
from paceline.runtime.gateway.proxy.engine_errors import is_death, outcome_of, problem_of, status_in
from paceline.runtime.gateway.proxy.error_log import describe_error
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.stream_timeout import StreamTimeout
from paceline.runtime.gateway.proxy.upstream import (
    Broken,
    NotSent,
    TooLarge,
    Unreachable,
    UpstreamResponse,
    Upstreams,
)
from paceline.runtime.gateway.requests.plan import RequestPlan
from paceline.runtime.gateway.requests.validation import CheckedRequest
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import (
    CLOSING_EVENTS_S,
    OPINION_FIRST_BYTE_S,
    OPINION_WHOLE_S,
)
from paceline.runtime.gateway.usage import usage_in

logger = logging.getLogger(__name__)

_MAX_ERROR_BYTES = 256 * 1024


class AttemptObserver(Protocol):
    """Receives the times of one request. Must not block or raise."""

    def first_bytes(self) -> None:
        """The first event of a stream is about to be sent. Only the first call counts."""
        ...

    def stream_completed(self, num_output_tokens: int | None) -> None:
        """The stream is complete; None where it did not report its tokens."""
        ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What all attempts of one request share."""

    request: CheckedRequest
    plan: RequestPlan
    reply: ClientResponse
    upstreams: Upstreams
    observer: AttemptObserver
    settings: GatewaySettings
    reserved: ReservedBytes
    """Memory that the request may use; an answer that is held as a whole adds to it."""


class Attempt:
    """One request to one replica."""

    __slots__ = (
        "_closes_at_s", "_context", "_is_cut_off", "_is_opinion", "_lease", "_reply", "_request",
        "_reserved", "_settings",
    )  # fmt: skip

    def __init__(self, context: RequestContext, lease: Lease, *, is_opinion: bool = False) -> None:
        self._context = context
        self._request = context.request
        self._reply = context.reply
        self._settings = context.settings
        self._reserved = context.reserved
        self._lease = lease
        self._is_opinion = is_opinion
        self._closes_at_s: float | None = None
        """When the stream is ended whose answer is complete; None before."""
        self._is_cut_off = False
        """The replica did not end its stream, whose answer is complete."""

    async def run(self, path: str, body: bytes, relay: Relay) -> AttemptEnd:
        """Send `body` to the replica, and its answer to the client, a stream through `relay`.

        Does not raise for a failure of the replica: the `AttemptEnd` describes it.
        """
        settings = self._settings
        is_stream = self._request.is_stream
        limit_s = settings.first_byte_timeout_s if is_stream else settings.response_timeout_s
        if self._is_opinion:
            limit_s = min(limit_s, OPINION_FIRST_BYTE_S if is_stream else OPINION_WHOLE_S)
        self._lease.watch_progress(is_stream=is_stream)
        num_reserved = self._reserved.num_bytes
        try:
            async with StreamTimeout(limit_s) as limit:
                self._lease.on_cut(limit.expire)
                return await self._exchange(path, body, relay, limit)
        except TimeoutError:
            may_be_slow = not is_stream or (self._is_opinion and not self._lease.has_answered)
            if may_be_slow and not self._lease.is_cut:
                return too_slow(limit_s)
            return timed_out(settings.stall_timeout_s if self._lease.has_answered else limit_s)
        except TooLarge:
            return too_large(settings.max_response_bytes)
        except (NotSent, Unreachable, Broken) as error:
            return exchange_failed(error, settings)
        finally:
            # The answer is gone.
            self._reserved.grow(min(0, num_reserved - self._reserved.num_bytes))

    async def _exchange(
        self, path: str, body: bytes, relay: Relay, limit: StreamTimeout
    ) -> AttemptEnd:
        upstreams, plan = self._context.upstreams, self._context.plan
        response = await upstreams.post(self._lease.replica, path, body, plan.request_id, plan.hops)
        self._lease.own(response)
        if response.status != 200:
            body = b"" if response.is_encoded else await response.read_error(_MAX_ERROR_BYTES)
            return self._failed(response.status, body)
        if response.is_encoded:
            raise Broken("the answer is compressed, which the request refuses")
        if not self._request.is_stream:
            return await self._send_whole(response, limit)
        start = await response.read_contents()
        if not looks_whole(start):
            return await self._relay_stream(response, start, relay, limit)
        error = self._error_in(await self._read_whole(response, start))
        if error is None:
            raise Broken("the answer to a request for a stream is none")
        return self._failed(status_in(error), error)

    async def _send_whole(self, response: UpstreamResponse, limit: StreamTimeout) -> AttemptEnd:
        whole = await self._read_whole(response)
        self._lease.got_bytes()
        error = self._error_in(whole)
        if error is not None:
            return self._failed(status_in(error), error)
        self._lease.received_all()
        limit.suspend()
        await self._reply.whole_answer(whole, usage_in(whole))
        return COMPLETED

    async def _read_whole(self, response: UpstreamResponse, start: bytes = b"") -> bytes:
        max_bytes = self._settings.max_response_bytes
        return await response.read_all(max_bytes, self._reserved.grow, start=start)

    def _error_in(self, whole: bytes) -> bytes | None:
        """The error that this answer is; None for an answer of the route."""
        try:
            return error_in(whole, self._request.route.content)
        except ValueError as fault:
            raise Broken(str(fault)) from fault

    async def _relay_stream(
        self, response: UpstreamResponse, data: bytes, relay: Relay, limit: StreamTimeout
    ) -> AttemptEnd:
        """Pass the stream on; `data` is its beginning."""
        settings, reply = self._settings, self._reply
        num_held = 0
        last_part = NOTHING
        while True:
            part = _feed(relay, data)
            if relay.num_held_bytes != num_held:
                self._reserved.grow(relay.num_held_bytes - num_held)
                num_held = relay.num_held_bytes
            if part.data and relay.has_tokens and not part.is_comment:  # comments are no progress
                self._lease.got_bytes()
            if relay.saw_done:
                self._lease.received_all()
            if part.is_comment:
                await self._send_comment(part, limit)
            elif part.data:
                if not reply.has_begun:
                    await reply.begin_stream()
                if relay.has_tokens and not self._lease.has_answered:
                    self._context.observer.first_bytes()
                    self._lease.answered()
                limit.suspend()  # a client that does not read has its own, in `protocol`
                if relay.saw_done:
                    last_part = part
                    break
                await reply.chunk(part)
                limit.move(
                    settings.stall_timeout_s if relay.has_tokens else settings.first_byte_timeout_s
                )
            if relay.saw_done:
                break
            if not relay.has_finished:
                if relay.error is not None:
                    return self._failed(status_in(relay.error), relay.error)
                if relay.fault is not None:
                    raise Broken(relay.fault)
            if not data or relay.error is not None or relay.fault is not None:
                break
            if relay.has_tokens:
                self._lease.sent_bytes()
            data = await self._read_on(response, relay, limit)
        limit.suspend()
        if not relay.saw_done:
            last_part = self._closing_part(relay)
        await reply.end_stream(last_part)
        return self._completed()

    async def _send_comment(self, part: AnswerPart, limit: StreamTimeout) -> None:
        """The replica's limit continues when the client has read the comment."""
        left_s = limit.left_s
        limit.suspend()
        if not self._reply.has_begun:
            await self._reply.begin_stream()
        await self._reply.comment(part.data)
        if left_s is not None:
            limit.move(left_s)

    async def _read_on(
        self, response: UpstreamResponse, relay: Relay, limit: StreamTimeout
    ) -> bytes:
        """The next bytes; empty at the end. How a stream ends whose answer is complete, or whether
        it ends at all, does not matter."""
        if not relay.has_finished:
            return await response.read_some()
        limit.suspend()
        loop = asyncio.get_running_loop()
        if self._closes_at_s is None:
            self._closes_at_s = loop.time() + CLOSING_EVENTS_S
        try:
            async with asyncio.timeout_at(self._closes_at_s):
                data = await response.read_some()
        except (Broken, TimeoutError):
            self._is_cut_off = True
            return b""
        return data if loop.time() < self._closes_at_s else b""

    def _closing_part(self, relay: Relay) -> AnswerPart:
        if not relay.has_finished:
            raise Broken("the stream ended before it was complete")
        if self._is_cut_off and relay.lacks_usage:
            raise Broken("the stream ended before its usage")
        self._lease.received_all()
        try:
            return relay.closing_part()
        except ValueError as error:
            raise Broken(str(error)) from error

    def _completed(self) -> AttemptEnd:
        usage = self._reply.delivered.usage
        self._context.observer.stream_completed(None if usage is None else usage.output_tokens)
        return COMPLETED

    def _failed(self, status: int, body: bytes) -> AttemptEnd:
        problem = problem_of(
            status,
            body,
            self._request.route,
            self._request.fields,
            self._settings.retry_after_s,
            self._lease.replica.dialect,
        )
        description = describe_error(body, self._settings.log_prompts)
        return AttemptEnd(
            outcome_of(problem),
            problem,
            f"answered {status}: {description}",
            is_death=is_death(status, body, self._lease.replica.dialect),
        )


def _feed(relay: Relay, data: bytes) -> AnswerPart:
    """Whatever a replica sends, what the gateway cannot pass on is the replica's fault."""
    try:
        return relay.feed(data)
    except ValueError as error:
        raise Broken(str(error)) from error
    except Exception as error:
        logger.exception("a stream that the gateway fails to read")
        raise Broken(f"the gateway fails to read it: {type(error).__name__}") from error
