"""How does a request come to its answer, over as many replicas as it takes?

Choose a replica, attempt, see how it ended, and let `failure_policy` say what is next: another
replica from the beginning while the client has had nothing, another one from the last token once it
has, or the problem. A request that its client leaves is cancelled here, wherever it stands.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from paceline.gateway.http.response import ClientResponse
from paceline.gateway.metrics.metrics import Continuation, GatewayMetrics
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt import AttemptEnd, AttemptObserver, RequestContext
from paceline.gateway.proxy.carrier import Carrier, EngineFields
from paceline.gateway.proxy.failure_policy import (
    Decision,
    FailureContext,
    RetryReason,
    Step,
    next_step,
)
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.proxy.retry_budget import RetryBudget
from paceline.gateway.proxy.upstream import Upstreams
from paceline.gateway.replicas import Replica
from paceline.gateway.requests.validation import CheckedRequest
from paceline.gateway.routing.router import Router
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.settings.failures import PROGRESS_TOKENS

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.05
_MAX_LOOK_AGAIN_S = 0.5
"""A request that waits for a replica looks for one so often: soon, then more and more rarely, for
in an outage thousands may wait, and a look costs 10 µs with eight replicas."""
_LOOK_AGAIN_FACTOR = 1.3
_KEEP_ALIVE_S = 5.0
"""A client whose stream waits for a replica reads a comment so often; clients skip comments."""
_KEEP_ALIVE = b": waiting for a replica\n\n"


@dataclass(frozen=True, slots=True)
class GatewayServices:
    """What all requests of a gateway share."""

    settings: GatewaySettings
    router: Router
    upstreams: Upstreams
    ledger: LeaseTable
    retries: RetryBudget
    continuations: RetryBudget
    metrics: GatewayMetrics


class Journey:
    """One request, from its being let in to the end of its answer."""

    def __init__(
        self,
        services: GatewayServices,
        request: CheckedRequest,
        request_id: str,
        reply: ClientResponse,
        observer: AttemptObserver,
        engine_fields: EngineFields,
    ) -> None:
        self._services = services
        self._request = request
        self._request_id = request_id
        self._reply = reply
        context = RequestContext(
            request, request_id, reply, services.upstreams, observer, services.settings
        )
        self._carrier = Carrier(context, engine_fields)
        self._failed: set[str] = set()
        """Replicas that failed this request."""
        self._num_attempts = self._num_repeating_errors = 0
        self._num_continuations = self._num_continuations_in_all = 0
        self._waited_s = 0.0
        self._what_failed = ""

    async def run(self, first: Replica) -> Outcome:
        """Until the client has its answer, or the problem. `first` is where it begins."""
        now_s = time.monotonic()
        self._services.retries.note_request(now_s)
        self._services.continuations.note_request(now_s)
        end = await self._attempt(first)
        while end.problem is not None:
            whole = await self._carrier.close_if_whole()
            if whole is not None:
                self._log("closed", "answer_was_whole")
                return whole.outcome
            decision = self._decide(end)
            if decision.step in (Step.FINISHED, Step.GIVE_UP):
                self._count_loss(decision.reason)
                break
            replica = await self._find_replica(
                end.outcome, waits=decision.step is Step.WAIT_FOR_REPLICA
            )
            if replica is None:
                self._count_loss(RetryReason.NO_REPLICA_CAME)
                break
            end = await self._attempt(replica)
        if end.problem is not None:
            await self._reply.problem(end.problem)
        return end.outcome

    async def _attempt(self, replica: Replica) -> AttemptEnd:
        continues, num_tokens = self._reply.has_data, self._carrier.num_tokens
        async with self._services.ledger.lease(replica) as lease:
            end = await self._carrier.attempt(lease)
            lease.end(end.outcome)
        if end.outcome is not Outcome.UNREACHABLE:  # which cost no engine anything
            self._num_attempts += not continues
            if continues:
                self._num_continuations_in_all += 1
                gained = self._carrier.num_tokens - num_tokens
                in_vain = gained < PROGRESS_TOKENS
                self._num_continuations = self._num_continuations + 1 if in_vain else 0
        if end.problem is not None:
            self._failed.add(replica.name)
            self._what_failed = f"replica {replica.name}: {end.outcome.value}: {end.detail}"
            self._num_repeating_errors += end.repeats
        if continues:
            resumed = end.problem is None or lease.has_answered
            self._services.metrics.continuation_ended(
                Continuation.RESUMED if resumed else Continuation.FAILED
            )
        return end

    def _decide(self, end: AttemptEnd) -> Decision:
        services, now_s = self._services, time.monotonic()
        why_not = self._carrier.why_not_continued if self._reply.has_data else None
        decision = next_step(
            FailureContext(
                outcome=end.outcome,
                has_client_bytes=self._reply.has_data,
                can_continue=why_not is None,
                num_attempts=self._num_attempts,
                num_continuations=self._num_continuations,
                num_continuations_in_all=self._num_continuations_in_all,
                num_repeating_errors=self._num_repeating_errors,
                waited_s=self._waited_s,
                has_other_replica=self._choose(avoid=self._failed) is not None,
                num_retries_left=services.retries.num_left(now_s),
                num_continuations_left=services.continuations.num_left(now_s),
            ),
            services.settings.failures,
        )
        self._log(decision.step.value, decision.reason.value, f" ({why_not})" if why_not else "")
        return decision

    def _log(self, step: str, reason: str, remark: str = "") -> None:
        """One line for each failed attempt: what failed, and what follows."""
        logger.warning(
            "request %s: %s; next: %s, %s%s",
            self._request_id, self._what_failed, step, reason, remark,
        )  # fmt: skip

    async def _find_replica(self, after: Outcome, *, waits: bool) -> Replica | None:
        """The replica for the next attempt, waited for if need be; spends the budget of it.

        None when none came in time, or the budget went meanwhile.
        """
        loop, wait_s = asyncio.get_running_loop(), _LOOK_AGAIN_S
        told_at_s = loop.time()
        avoid: Collection[str] = () if waits else self._failed
        while True:
            replica = None if waits and wait_s == _LOOK_AGAIN_S else self._choose(avoid)
            if replica is not None:
                return replica if self._spend(after) else None
            if self._waited_s > self._services.settings.failures.replica_wait_s:
                return None
            avoid = ()
            began_at_s = loop.time()
            await asyncio.sleep(wait_s)
            self._waited_s += loop.time() - began_at_s
            wait_s = min(wait_s * _LOOK_AGAIN_FACTOR, _MAX_LOOK_AGAIN_S)
            if self._reply.has_begun and loop.time() - told_at_s > _KEEP_ALIVE_S:
                told_at_s = loop.time()
                await self._reply.comment(_KEEP_ALIVE)

    def _choose(self, avoid: Collection[str]) -> Replica | None:
        request = self._request
        return self._services.router.choose(
            request.model,
            request.needs,
            avoid,
            allow_open_breakers=False,
            continues_from=self._carrier.began_on,
        )

    def _spend(self, after: Outcome) -> bool:
        services, now_s = self._services, time.monotonic()
        if self._reply.has_data:
            return services.continuations.try_spend(now_s)
        if not self._num_attempts:
            return True  # no engine has taken it yet
        if not services.retries.try_spend(now_s):
            return False
        services.metrics.retried(after)
        return True

    def _count_loss(self, reason: RetryReason) -> None:
        """For the metrics: a stream that had begun does not come to its end."""
        if self._reply.has_data:
            is_kind = reason in (RetryReason.NOT_CONTINUABLE, RetryReason.CONTINUATION_REFUSED)
            self._services.metrics.continuation_ended(
                Continuation.NOT_CONTINUABLE if is_kind else Continuation.GAVE_UP
            )
