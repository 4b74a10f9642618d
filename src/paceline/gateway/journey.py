"""How does a request come to its answer, over as many replicas as it takes?

Choose a replica, attempt, see how it ended, and let `failure_policy` say what is next: another
replica from the beginning while the client has had nothing, another one from the last token once it
has, or the problem. A request that its client leaves is cancelled here, wherever it stands.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from paceline.gateway import failure_policy
from paceline.gateway.attempt import (
    COMPLETED,
    Attempt,
    AttemptEnd,
    AttemptObserver,
    broken,
    unreachable,
)
from paceline.gateway.body_edit import with_fields
from paceline.gateway.checks import CheckedRequest
from paceline.gateway.continuation.continuing import CannotContinue, StreamMemory
from paceline.gateway.failure_policy import Step, next_step
from paceline.gateway.lease import Lease, Ledger
from paceline.gateway.metrics import Continuation, GatewayMetrics
from paceline.gateway.outcomes import Outcome
from paceline.gateway.replicas import Replica
from paceline.gateway.reply import Reply
from paceline.gateway.retry_budget import RetryBudget
from paceline.gateway.routing import Router
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.sse import EventRelay
from paceline.gateway.upstream import Broken, Unreachable, Upstreams

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.05
"""How often a request that waits for a replica looks for one."""
_KEEP_ALIVE_S = 5.0
"""A client whose stream waits for a replica reads a comment so often; clients skip comments."""
_KEEP_ALIVE = b": waiting for a replica\n\n"
_MAX_SIDE_ANSWER_BYTES = 16 * 1024 * 1024


EngineFields = Callable[[Replica], Mapping[str, object]]
"""Fields of the gateway's own that go into the body for this replica."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all requests of a gateway share."""

    settings: GatewaySettings
    router: Router
    upstreams: Upstreams
    ledger: Ledger
    retries: RetryBudget
    continuations: RetryBudget
    metrics: GatewayMetrics


class Journey:
    """One request, from its being let in to the end of its answer."""

    def __init__(
        self,
        ground: Ground,
        request: CheckedRequest,
        request_id: str,
        reply: Reply,
        observer: AttemptObserver,
        engine_fields: EngineFields,
    ) -> None:
        self._ground = ground
        self._request = request
        self._request_id = request_id
        self._reply = reply
        self._observer = observer
        self._engine_fields = engine_fields
        self._memory = StreamMemory(request.parsed) if request.is_stream else None
        self._failed: set[str] = set()
        """Replicas that failed this request."""
        self._num_attempts = self._num_continuations = self._num_repeating_errors = 0
        self._waited_s = 0.0

    async def run(self, first: Replica) -> Outcome:
        """Until the client has its answer, or the problem. `first` is where it begins."""
        now_s = time.monotonic()
        self._ground.retries.note_request(now_s)
        self._ground.continuations.note_request(now_s)
        replica = first
        while True:
            end = await self._lease_and_attempt(replica)
            if end.problem is None:
                break
            if (step := self._next_step(replica, end)) in (Step.FINISHED, Step.GIVE_UP):
                break
            if self._memory is not None and self._memory.needs_no_engine:
                end = await self._close(self._memory)
                break
            found = await self._find_replica(end.outcome, waits=step is Step.WAIT_FOR_REPLICA)
            if found is None:
                break
            replica = found
        if end.problem is not None:
            await self._reply.problem(end.problem)
        return end.outcome

    async def _lease_and_attempt(self, replica: Replica) -> AttemptEnd:
        continues = self._reply.has_begun
        async with self._ground.ledger.lease(replica) as lease:
            end = await self._attempt(lease)
            lease.end(end.outcome)
        if end.outcome is not Outcome.UNREACHABLE:  # which cost no engine anything
            self._num_continuations += continues
            self._num_attempts += not continues
        if end.problem is not None:
            self._failed.add(replica.name)
            self._num_repeating_errors += end.repeats
        if continues:
            resumed = end.problem is None or lease.has_answered
            self._ground.metrics.continuation_ended(
                Continuation.RESUMED if resumed else Continuation.FAILED
            )
        return end

    def _next_step(self, replica: Replica, end: AttemptEnd) -> Step:
        """What is next; spends the budget of it."""
        ground, now_s = self._ground, time.monotonic()
        why_not = self._why_not_continued() if self._reply.has_begun else None
        other = self._choose(avoid=self._failed)
        decision = next_step(
            failure_policy.AttemptEnd(
                outcome=end.outcome,
                has_client_bytes=self._reply.has_begun,
                can_continue=why_not is None,
                num_attempts=self._num_attempts,
                num_continuations=self._num_continuations,
                num_repeating_errors=self._num_repeating_errors,
                time_left_s=math.inf,  # the deadline cancels the whole journey
                waited_s=self._waited_s,
                has_other_replica=other is not None,
                num_retries_left=ground.retries.num_left(now_s),
                num_continuations_left=ground.continuations.num_left(now_s),
            ),
            ground.settings.failures,
        )
        logger.warning(
            "request %s: replica %s: %s: %s; next: %s, %s%s",
            self._request_id, replica.name, end.outcome.value, end.detail,
            decision.step.value, decision.reason.value, f" ({why_not})" if why_not else "",
        )  # fmt: skip
        if decision.step is Step.GIVE_UP and self._reply.has_begun:
            is_kind = decision.reason is failure_policy.Reason.NOT_CONTINUABLE
            ground.metrics.continuation_ended(
                Continuation.NOT_CONTINUABLE if is_kind else Continuation.GAVE_UP
            )
        return decision.step

    def _choose(self, avoid: Collection[str]) -> Replica | None:
        request = self._request
        return self._ground.router.choose(request.model, request.needs, avoid, forced=False)

    async def _find_replica(self, after: Outcome, *, waits: bool) -> Replica | None:
        """The replica for the next attempt, waited for if need be; spends the budget of it.

        None when none came in time, or the budget went meanwhile.
        """
        ground, loop = self._ground, asyncio.get_running_loop()
        told_at_s = loop.time()
        avoid: Collection[str] = () if waits else self._failed
        while True:
            replica = self._choose(avoid)
            if replica is not None:
                return replica if self._spend(after) else None
            avoid = ()
            await asyncio.sleep(_LOOK_AGAIN_S)
            self._waited_s += _LOOK_AGAIN_S
            if self._waited_s > ground.settings.failures.replica_wait_s:
                return None
            if self._reply.has_begun and loop.time() - told_at_s > _KEEP_ALIVE_S:
                told_at_s = loop.time()
                await self._reply.chunk(_KEEP_ALIVE)

    def _spend(self, after: Outcome) -> bool:
        ground, now_s = self._ground, time.monotonic()
        if self._reply.has_begun:
            return ground.continuations.try_spend(now_s)
        if not ground.retries.try_spend(now_s):
            return False
        ground.metrics.retried(after)
        return True

    def _why_not_continued(self) -> str | None:
        if self._reply.is_inside_event:
            return "an event was cut in the middle"
        return "it is no stream" if self._memory is None else self._memory.why_not

    async def _attempt(self, lease: Lease) -> AttemptEnd:
        attempt = Attempt(
            self._request,
            self._request_id,
            lease,
            self._reply,
            self._ground.upstreams,
            self._observer,
            self._ground.settings,
        )
        if self._reply.has_begun:
            return await self._go_on(attempt, lease)
        fields = dict(self._engine_fields(lease.replica))
        if self._request.is_stream:
            memory = self._memory = StreamMemory(self._request.parsed)
            if memory.is_tracked and lease.replica.tells_token_ids:
                body = self._body({**fields, "return_token_ids": True})
                return await attempt.run(self._request.route.path, body, memory.relay())
        route = self._request.route
        relay = EventRelay(
            self._ground.settings.max_event_bytes, route.end_marks, route.error_marks
        )
        return await attempt.run(self._request.route.path, self._body(fields), relay)

    async def _go_on(self, attempt: Attempt, lease: Lease) -> AttemptEnd:
        """Have this replica take the begun stream up."""
        memory, replica = self._memory, lease.replica
        assert memory is not None

        async def ask(path: str, body: bytes) -> tuple[int, bytes]:
            response = await self._ground.upstreams.post(replica, path, body, self._request_id)
            try:
                return response.status, await response.read_all(_MAX_SIDE_ANSWER_BYTES)
            finally:
                response.close()

        try:
            async with asyncio.timeout(self._ground.settings.first_byte_timeout_s):
                resumption = await memory.resume(
                    ask, replica.max_model_len, self._engine_fields(replica)
                )
        except CannotContinue as error:
            return broken(str(error), self._ground.settings)
        except (Broken, Unreachable, TimeoutError) as error:
            return unreachable(str(error), self._ground.settings)
        if isinstance(resumption, bytes):
            await self._reply.chunk(resumption)
            await self._reply.end_stream()
            return COMPLETED
        return await attempt.run(resumption.path, resumption.body, resumption.relay)

    async def _close(self, memory: StreamMemory) -> AttemptEnd:
        """The answer was whole when the replica died: what stood behind it is made here."""
        await self._reply.chunk(memory.closing_events())
        await self._reply.end_stream()
        return COMPLETED

    def _body(self, fields: Mapping[str, object]) -> bytes:
        return with_fields(self._request.body, self._request.parsed, fields)
