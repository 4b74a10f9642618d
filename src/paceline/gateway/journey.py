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

from paceline.gateway.attempt import AttemptEnd, AttemptObserver, RequestContext
from paceline.gateway.carrier import Carrier, EngineFields
from paceline.gateway.checks import CheckedRequest
from paceline.gateway.failure_policy import Decision, Reason, Standing, Step, next_step
from paceline.gateway.failure_settings import PROGRESS_TOKENS
from paceline.gateway.lease import Ledger
from paceline.gateway.metrics import Continuation, GatewayMetrics
from paceline.gateway.outcomes import Outcome
from paceline.gateway.replicas import Replica
from paceline.gateway.reply import Reply
from paceline.gateway.retry_budget import RetryBudget
from paceline.gateway.routing import Router
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.upstream import Upstreams

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
        context = RequestContext(
            request, request_id, reply, ground.upstreams, observer, ground.settings
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
        self._ground.retries.note_request(now_s)
        self._ground.continuations.note_request(now_s)
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
                self._count_loss(Reason.NO_REPLICA_CAME)
                break
            end = await self._attempt(replica)
        if end.problem is not None:
            await self._reply.problem(end.problem)
        return end.outcome

    async def _attempt(self, replica: Replica) -> AttemptEnd:
        continues, num_tokens = self._reply.has_data, self._carrier.num_tokens
        async with self._ground.ledger.lease(replica) as lease:
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
            self._ground.metrics.continuation_ended(
                Continuation.RESUMED if resumed else Continuation.FAILED
            )
        return end

    def _decide(self, end: AttemptEnd) -> Decision:
        ground, now_s = self._ground, time.monotonic()
        why_not = self._carrier.why_not_continued if self._reply.has_data else None
        decision = next_step(
            Standing(
                outcome=end.outcome,
                has_client_bytes=self._reply.has_data,
                can_continue=why_not is None,
                num_attempts=self._num_attempts,
                num_continuations=self._num_continuations,
                num_continuations_in_all=self._num_continuations_in_all,
                num_repeating_errors=self._num_repeating_errors,
                waited_s=self._waited_s,
                has_other_replica=self._choose(avoid=self._failed) is not None,
                num_retries_left=ground.retries.num_left(now_s),
                num_continuations_left=ground.continuations.num_left(now_s),
            ),
            ground.settings.failures,
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
            if self._waited_s > self._ground.settings.failures.replica_wait_s:
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
        return self._ground.router.choose(
            request.model, request.needs, avoid, forced=False, goes_on=self._carrier.began_on
        )

    def _spend(self, after: Outcome) -> bool:
        ground, now_s = self._ground, time.monotonic()
        if self._reply.has_data:
            return ground.continuations.try_spend(now_s)
        if not self._num_attempts:
            return True  # no engine has taken it yet
        if not ground.retries.try_spend(now_s):
            return False
        ground.metrics.retried(after)
        return True

    def _count_loss(self, reason: Reason) -> None:
        """For the metrics: a stream that had begun does not come to its end."""
        if self._reply.has_data:
            is_kind = reason in (Reason.NOT_CONTINUABLE, Reason.CONTINUATION_REFUSED)
            self._ground.metrics.continuation_ended(
                Continuation.NOT_CONTINUABLE if is_kind else Continuation.GAVE_UP
            )
