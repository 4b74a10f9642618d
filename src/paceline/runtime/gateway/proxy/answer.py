"""`Answer`: one request's answer, begun on one replica and, if that fails, continued on others.

It chooses body and relay of an attempt. Which replica takes the attempt, and what follows when it
fails, is decided in `request_runner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paceline.runtime.gateway.continuation.resumable_stream import (
    CannotContinue,
    DetokeniseFailed,
    ResumableStream,
)
from paceline.runtime.gateway.delivered import AnswerPart
from paceline.runtime.gateway.http.body_edit import with_fields
from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.event_parser import max_event_bytes
from paceline.runtime.gateway.http.sse import EventRelay
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt import Attempt, RequestContext
from paceline.runtime.gateway.proxy.attempt_end import (
    COMPLETED,
    AttemptEnd,
    exchange_failed,
    timed_out,
)
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.stream_timeout import StreamTimeout
from paceline.runtime.gateway.proxy.upstream import Broken, NotSent, TooLarge, Unreachable
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests import draft_cap
from paceline.runtime.gateway.requests.engine_fields import engine_fields
from paceline.runtime.gateway.requests.stream_usage import shows_usage, usage_fields
from paceline.runtime.gateway.time_limits import DETOKENISE_TIMEOUT_S

_MAX_DETOKENISE_ANSWER_BYTES = 16 * 1024 * 1024


class Answer:
    """The answer to one request."""

    __slots__ = ("_context", "_reply", "_stream", "_why_not_tracked")

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._reply = context.reply
        self._stream: ResumableStream | None = None
        """None for an answer that cannot be continued."""
        self._why_not_tracked: str | None = "it is no stream"
        """Why there is none."""

    @property
    def why_not_continued(self) -> str | None:
        """Why the stream cannot be continued on another replica; None when it can."""
        return self._why_not_tracked if self._stream is None else self._stream.why_not

    async def attempt(self, lease: Lease, *, is_opinion: bool = False) -> AttemptEnd:
        """One attempt: from the beginning, or from the last token that the client has received.

        `is_opinion`: another replica has refused the request, so this one must answer soon.
        """
        attempt = Attempt(self._context, lease, is_opinion=is_opinion)
        if self._reply.delivered.has_data:
            return await self._continue(attempt, lease)
        return await self._begin(attempt, lease.replica)

    async def close_if_complete(self) -> bool:
        """End a stream that has its whole answer and lacks only the events after it."""
        if self._stream is None or not self._stream.needs_no_engine:
            return False
        try:
            closing = self._stream.closing_events()
        except ValueError:
            return False
        await self._reply.end_stream(closing)
        return True

    async def _begin(self, attempt: Attempt, replica: Replica) -> AttemptEnd:
        request = self._context.request
        route, fields = request.route, self._fields_for(replica)
        max_bytes = max_event_bytes(self._context.settings.max_body_bytes)
        self._stream = None
        if request.is_stream and not replica.reports_token_ids:
            self._why_not_tracked = "the engine does not report token ids"
        elif request.is_stream:
            stream = ResumableStream(
                request.parsed, self._reply.delivered, max_event_bytes=max_bytes
            )
            if stream.is_tracked:
                self._stream = stream
                body = self._body({**fields, "return_token_ids": True})
                return await attempt.run(route.path, body, stream.relay())
            self._why_not_tracked = stream.why_not
        asked = usage_fields(request, replica.dialect)
        relay = EventRelay(
            route.event_names,
            num_choices=request.num_choices,
            hides_usage=bool(asked),
            shows_usage=shows_usage(request),
            needs_reason=replica.gives_reason,
            max_event_bytes=max_bytes,
        )
        return await attempt.run(route.path, self._body({**fields, **asked}), relay)

    async def _continue(self, attempt: Attempt, lease: Lease) -> AttemptEnd:
        """Have this replica generate the rest of the stream."""
        stream, replica, settings = self._stream, lease.replica, self._context.settings
        reserved, num_reserved = self._context.reserved, self._context.reserved.num_bytes
        assert stream is not None

        async def ask(path: str, body: bytes) -> tuple[int, bytes]:
            upstreams, plan = self._context.upstreams, self._context.plan
            response = await upstreams.post(replica, path, body, plan.request_id, plan.hops)
            lease.own(response)
            text = await response.read_all(_MAX_DETOKENISE_ANSWER_BYTES, reserved.grow)
            return response.status, text

        try:
            async with StreamTimeout(DETOKENISE_TIMEOUT_S) as limit:
                lease.on_cut(limit.expire)
                resumption = await stream.resume(
                    ask, replica.max_model_len, self._fields_for(replica)
                )
        except (CannotContinue, TooLarge, Refusal) as error:  # a refusal: no room for the answers
            end = exchange_failed(Broken(error), settings)
            return replace(end, outcome=Outcome.NOT_CONTINUED)
        except DetokeniseFailed as error:
            return exchange_failed(Broken(error), settings)
        except (NotSent, Unreachable, Broken) as error:
            return exchange_failed(error, settings)
        except TimeoutError:
            return timed_out(DETOKENISE_TIMEOUT_S)
        finally:
            reserved.grow(min(0, num_reserved - reserved.num_bytes))  # the answers are gone
        if isinstance(resumption, AnswerPart):
            lease.received_all()
            await self._reply.end_stream(resumption)
            return COMPLETED
        return await attempt.run(resumption.path, resumption.body, resumption.relay)

    def _fields_for(self, replica: Replica) -> dict[str, object]:
        """Fields to set in the body for this replica."""
        context = self._context
        return engine_fields(context.plan, context.request, replica.dialect)

    def _body(self, fields: Mapping[str, object]) -> bytes:
        request = self._context.request
        return with_fields(request.body, request.parsed, fields, without=(draft_cap.FIELD,))
