"""How is a request put to one replica: from the beginning, or from the last token on?

Chooses body and relay for an attempt. Which replica, and what follows when it fails, is `journey`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from paceline.gateway.continuation.resumable_stream import CannotContinue, ResumableStream
from paceline.gateway.http.body_edit import with_fields
from paceline.gateway.http.sse import EventRelay
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt import (
    COMPLETED,
    Attempt,
    AttemptEnd,
    RequestContext,
    broken,
    timed_out,
    unreachable,
)
from paceline.gateway.proxy.lease import Lease
from paceline.gateway.proxy.upstream import Broken, Unreachable
from paceline.gateway.replicas import Replica

_SIDE_CALL_TIMEOUT_S = 10.0
"""The text of some thousand tokens is a matter of milliseconds; chosen by hand."""
_MAX_SIDE_ANSWER_BYTES = 16 * 1024 * 1024

EngineFields = Callable[[Replica], Mapping[str, object]]
"""Fields of the gateway's own that go into the body for this replica."""


class Carrier:
    """Makes the attempts of one request."""

    def __init__(self, context: RequestContext, engine_fields: EngineFields) -> None:
        self._context = context
        self._request = context.request
        self._reply = context.reply
        self._settings = context.settings
        self._engine_fields = engine_fields
        self._memory: ResumableStream | None = None
        self.began_on: Replica | None = None
        """The replica whose stream the client has read from; None until it has."""

    @property
    def why_not_continued(self) -> str | None:
        """Why the stream cannot go on elsewhere; None when it can."""
        if self._reply.is_inside_event:
            return "an event was cut in the middle"
        return "it is no stream" if self._memory is None else self._memory.why_not

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer until now, as far as they are noted."""
        return 0 if self._memory is None else self._memory.num_tokens

    async def attempt(self, lease: Lease) -> AttemptEnd:
        """One attempt, from the beginning or from the last token as the client has it."""
        attempt = Attempt(self._context, lease)
        if self._reply.has_data:
            return await self._go_on(attempt, lease)
        end = await self._begin(attempt, lease.replica)
        if self._reply.has_data:
            self.began_on = lease.replica
        return end

    async def close_if_whole(self) -> AttemptEnd | None:
        """End a stream whose answer is whole, and lacks only what stands behind it; else None."""
        if self._memory is None or not self._memory.needs_no_engine:
            return None
        await self._reply.chunk(self._memory.closing_events())
        await self._reply.end_stream()
        return COMPLETED

    async def _begin(self, attempt: Attempt, replica: Replica) -> AttemptEnd:
        route, fields = self._request.route, dict(self._engine_fields(replica))
        self._memory = None
        if self._request.is_stream and replica.reports_token_ids:
            memory = ResumableStream(self._request.parsed)
            if memory.is_tracked:
                self._memory = memory
                body = self._body({**fields, "return_token_ids": True})
                return await attempt.run(route.path, body, memory.relay())
        relay = EventRelay(self._settings.max_event_bytes, route.end_marks, route.error_marks)
        return await attempt.run(route.path, self._body(fields), relay)

    async def _go_on(self, attempt: Attempt, lease: Lease) -> AttemptEnd:
        """Have this replica take the begun stream up."""
        memory, replica = self._memory, lease.replica
        assert memory is not None

        async def ask(path: str, body: bytes) -> tuple[int, bytes]:
            upstreams, request_id = self._context.upstreams, self._context.request_id
            response = await upstreams.post(replica, path, body, request_id)
            lease.own(response)
            return response.status, await response.read_all(_MAX_SIDE_ANSWER_BYTES)

        try:
            async with asyncio.timeout(_SIDE_CALL_TIMEOUT_S):
                resumption = await memory.resume(
                    ask, replica.max_model_len, self._engine_fields(replica)
                )
        except CannotContinue as error:
            end = broken(str(error), self._settings)
            return AttemptEnd(Outcome.NOT_CONTINUED, end.problem, end.detail)
        except Broken as error:
            return broken(str(error), self._settings)
        except Unreachable as error:
            return unreachable(str(error), self._settings)
        except TimeoutError:
            return timed_out(_SIDE_CALL_TIMEOUT_S)
        if isinstance(resumption, bytes):
            await self._reply.chunk(resumption)
            await self._reply.end_stream()
            return COMPLETED
        return await attempt.run(resumption.path, resumption.body, resumption.relay)

    def _body(self, fields: Mapping[str, object]) -> bytes:
        return with_fields(self._request.body, self._request.parsed, fields)
