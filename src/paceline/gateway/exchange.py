"""How does one request pass through one replica?

From the checked request to the last byte of the answer. The outcome goes to the lease, the bytes
to the reply, the times to the observer; deadlines are kept here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from paceline.gateway.checks import CheckedRequest
from paceline.gateway.engine_errors import outcome_of, problem_of, status_in
from paceline.gateway.errors import Problem, unavailable
from paceline.gateway.lease import Lease
from paceline.gateway.outcomes import Outcome
from paceline.gateway.reply import Reply
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.sse import EventRelay, has_error, split_at_error
from paceline.gateway.upstream import Broken, Unreachable, UpstreamResponse, Upstreams

logger = logging.getLogger(__name__)

_MAX_ERROR_BYTES = 256 * 1024


class ExchangeObserver(Protocol):
    """Told of the times of one exchange. Must not block or raise."""

    def first_bytes(self) -> None:
        """The first event of a stream is about to be sent."""
        ...

    def stream_completed(self, num_output_tokens: int | None) -> None:
        """The stream is complete; the tokens are known only where it carried its usage."""
        ...


class Exchange:
    """One attempt. `run` returns when the client has its answer; the lease then has an outcome."""

    def __init__(
        self,
        request: CheckedRequest,
        request_id: str,
        lease: Lease,
        reply: Reply,
        upstreams: Upstreams,
        observer: ExchangeObserver,
        settings: GatewaySettings,
    ) -> None:
        self._request = request
        self._request_id = request_id
        self._lease = lease
        self._reply = reply
        self._upstreams = upstreams
        self._observer = observer
        self._settings = settings
        self._relay = EventRelay(settings.max_event_bytes, request.route.end_marks)

    async def run(self) -> None:
        settings = self._settings
        limit_s = (
            settings.first_byte_timeout_s
            if self._request.is_stream
            else settings.response_timeout_s
        )
        try:
            async with asyncio.timeout(limit_s) as deadline:
                await self._attempt(deadline)
        except TimeoutError:
            await self._give_up_waiting(limit_s)
        except Unreachable as error:
            await self._fail(
                Outcome.UNREACHABLE,
                unavailable("The engine cannot be reached just now.", settings.retry_after_s),
                str(error),
            )
        except Broken as error:
            await self._fail(
                Outcome.BROKEN,
                unavailable(
                    "The engine's answer ended before it was complete.", settings.retry_after_s
                ),
                str(error),
            )

    async def _attempt(self, deadline: asyncio.Timeout) -> None:
        request = self._request
        response = await self._upstreams.post(
            self._lease.replica, request.route.path, request.body, self._request_id
        )
        self._lease.own(response)
        if response.status != 200:
            body = await response.read_all(_MAX_ERROR_BYTES)
            problem = self._translate(response.status, body)
            if problem.status >= 500:
                logger.warning(
                    "request %s: replica %s answered %d: %r",
                    self._request_id, self._lease.replica.name, response.status, body[:500],
                )  # fmt: skip
            self._lease.end(outcome_of(problem))
            deadline.reschedule(None)
            await self._reply.problem(problem)
        elif response.is_event_stream:
            await self._relay_stream(response, deadline)
        else:
            body = await response.read_all(self._settings.max_response_bytes)
            deadline.reschedule(None)
            await self._reply.whole(200, body)
            self._lease.end(Outcome.COMPLETED)

    async def _relay_stream(self, response: UpstreamResponse, deadline: asyncio.Timeout) -> None:
        settings, relay, now = self._settings, self._relay, asyncio.get_running_loop().time
        is_first = True
        while data := await response.read_some():
            events = relay.feed(data)
            if events:
                if has_error(events, self._request.route.error_marks):
                    events = self._rewrite_errors(events)
                if is_first:
                    is_first = False
                    self._observer.first_bytes()
                    await self._reply.begin_stream()
                deadline.reschedule(None)  # for a client that does not read, see `protocol`
                await self._reply.chunk(events, ends_event=not relay.is_inside_event)
            if not is_first:
                deadline.reschedule(now() + settings.stall_timeout_s)
        deadline.reschedule(None)
        if not relay.saw_done:
            raise Broken("the stream ended before it was complete")
        await self._reply.end_stream()
        self._lease.end(Outcome.COMPLETED)
        if self._lease.outcome is Outcome.COMPLETED:
            self._observer.stream_completed(relay.num_output_tokens)

    def _rewrite_errors(self, events: bytes) -> bytes:
        """Events with the engine's errors put into our shape."""
        before, error, after = split_at_error(events, self._request.route.error_marks)
        problem = self._translate(status_in(error), error)
        logger.warning(
            "request %s: replica %s sent an error in its stream: %r",
            self._request_id, self._lease.replica.name, error[:500],
        )  # fmt: skip
        self._lease.end(outcome_of(problem))
        if has_error(after, self._request.route.error_marks):
            after = self._rewrite_errors(after)
        return before + self._reply.event_of(problem) + after

    def _translate(self, status: int, body: bytes) -> Problem:
        return problem_of(
            status,
            body,
            self._request.route,
            self._request.fields,
            self._settings.retry_after_s,
        )

    async def _give_up_waiting(self, limit_s: float) -> None:
        waited_s = self._settings.stall_timeout_s if self._reply.has_begun else limit_s
        await self._fail(
            Outcome.TIMED_OUT,
            Problem(504, f"The engine sent nothing for {waited_s:g} s.", "engine_timeout"),
            f"nothing for {waited_s:g} s",
        )

    async def _fail(self, outcome: Outcome, problem: Problem, reason: str) -> None:
        logger.warning(
            "request %s: replica %s: %s: %s",
            self._request_id, self._lease.replica.name, outcome.value, reason,
        )  # fmt: skip
        self._lease.end(outcome)
        await self._reply.problem(problem)
