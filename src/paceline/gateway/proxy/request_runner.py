"""`RequestRunner`: one request to an engine's route, from its headers to its one outcome.

It owns the choice of replicas, the lease of each attempt, retries, continuation and the end. Its
`_serve` has one call for each of the eight steps in docs/architecture.md, "One request".
"""

from __future__ import annotations

import asyncio
import logging
import time

from paceline.gateway.admission import Overloaded, RefusalReason
from paceline.gateway.admission.queue import Slot
from paceline.gateway.hops import add_hop, hops_of
from paceline.gateway.http.asgi import Receive, Scope
from paceline.gateway.http.body import (
    Body,
    ClientGone,
    announced_bytes,
    check_headers,
    read_body,
)
from paceline.gateway.http.client_watch import ClientWatch
from paceline.gateway.http.errors import INTERNAL, STOPPING, Problem, Refusal
from paceline.gateway.http.response import ClientResponse
from paceline.gateway.keys.ring import Tenant
from paceline.gateway.metrics.request_times import RequestTimes
from paceline.gateway.outcomes import Continuation, Outcome
from paceline.gateway.proxy.answer import Answer
from paceline.gateway.proxy.attempt import RequestContext
from paceline.gateway.proxy.attempt_end import COMPLETED, AttemptEnd
from paceline.gateway.proxy.attempt_history import AttemptHistory
from paceline.gateway.proxy.failure_policy import RetryReason, Step, next_step
from paceline.gateway.proxy.lease import Lease
from paceline.gateway.proxy.replica_chooser import ReplicaChooser
from paceline.gateway.proxy.services import GatewayServices
from paceline.gateway.replicas import of_model
from paceline.gateway.requests.deadline import Deadline, deadline_of
from paceline.gateway.requests.plan import RequestPlan, make_plan
from paceline.gateway.requests.routes import Route
from paceline.gateway.requests.served import check_served, most_sequences, unready
from paceline.gateway.requests.validation import CheckedRequest, check_request

logger = logging.getLogger(__name__)


class RequestRunner:
    """Runs one request; use it once."""

    __slots__ = (
        "_answer",
        "_chooser",
        "_deadline",
        "_failure",
        "_history",
        "_outcome",
        "_plan",
        "_receive",
        "_reply",
        "_request_id",
        "_reserved",
        "_route",
        "_scope",
        "_services",
        "_times",
    )  # fmt: skip

    _deadline: Deadline
    _times: RequestTimes
    _plan: RequestPlan
    _answer: Answer
    _chooser: ReplicaChooser

    def __init__(
        self,
        services: GatewayServices,
        route: Route,
        request_id: str,
        scope: Scope,
        receive: Receive,
        reply: ClientResponse,
    ) -> None:
        self._services = services
        self._route = route
        self._request_id = request_id
        self._scope = scope
        self._receive = receive
        self._reply = reply
        self._history = AttemptHistory()
        self._outcome = Outcome.INTERNAL_ERROR
        self._reserved = services.bytes_held.request(None)
        """Nothing, until the tenant is known."""
        self._failure = ""
        """The last failed attempt, for the log."""

    async def run(self) -> None:
        """Serve the request and count its outcome, exactly once.

        Raises only the cancellation with which the server ends it.
        """
        try:
            problem = await self._try_to_serve()
            if problem is not None:
                self._drop_contents()
                await self._send(problem)
        finally:
            self._reserved.release()
            self._services.metrics.request_ended(self._outcome)
            self._services.metrics.tokens_used(self._reply.delivered.usage)

    async def _try_to_serve(self) -> Problem | None:
        """Serve the request; the problem that ended it early, which is still to be sent."""
        try:
            self._outcome = await self._serve()
        except ClientGone:
            self._outcome = Outcome.CLIENT_GONE
        except Refusal as refusal:
            self._outcome = refusal.outcome
            return refusal.problem
        except Overloaded as overloaded:
            self._outcome, problem = self._explain(overloaded)
            return problem
        except asyncio.CancelledError:
            self._outcome = Outcome.SHUT_DOWN
            await self._reply.problem(STOPPING)
            raise
        except Exception:
            logger.exception("request %s: fault in the gateway", self._request_id)
            return INTERNAL
        return None

    def _drop_contents(self) -> None:
        """Let go of the body, for a client that may be slow to read why it was refused."""
        if hasattr(self, "_answer"):
            del self._answer
        self._reserved.drop_contents()

    async def _serve(self) -> Outcome:
        """The eight steps. A step that ends the request early raises."""
        tenant = self._authenticate()
        body = await self._read_body(tenant)
        async with ClientWatch(self._receive), self._deadline:
            request = await self._check_request(body, tenant)
            plan = self._check_served(request, tenant)
            async with self._wait_for_slots(plan) as slot:
                end = None
                while (lease := await self._choose_replica(slot, end)) is not None:
                    end = await self._attempt(lease)
                return await self._finish(end, request, tenant)

    # The steps

    def _authenticate(self) -> Tenant | None:
        """Step 1: the tenant whose key the request carries; None when keys are off."""
        return self._services.access.authenticate(self._scope)

    async def _read_body(self, tenant: Tenant | None) -> Body:
        """Step 2: check the headers, start the deadline, and read the whole body.

        Memory is reserved before anything is read: for the body, the copy that a replica gets,
        and the decoded form, which is as long for plain text.
        """
        settings = self._services.settings
        reserved = self._services.bytes_held.request(None if tenant is None else tenant.name)
        reserved.begin()
        self._reserved = reserved
        check_headers(self._scope, settings)
        self._deadline = Deadline(deadline_of(self._scope, settings.admission))
        num_bytes = announced_bytes(self._scope)
        reserved.resize(3 * num_bytes)
        turn = self._services.counting_turns.turn
        return await read_body(self._receive, settings, num_bytes, reserved.grow, turn)

    async def _check_request(self, body: Body, tenant: Tenant | None) -> CheckedRequest:
        """Step 3: refuse a request that no engine should see."""
        services = self._services
        self._times = RequestTimes(services.metrics)
        self._reserved.resize(2 * len(body.data) + body.decoded_bytes)
        async with services.decoding_turns.turn(body.decoded_bytes):
            return check_request(self._route, body.data, services.settings, tenant, body.num_keys)

    def _check_served(self, request: CheckedRequest, tenant: Tenant | None) -> RequestPlan:
        """Step 4: refuse at once, before any wait, what no replica can serve now; plan the rest."""
        services, settings = self._services, self._services.settings
        replicas = services.source.replicas()
        check_served(request, replicas, settings.retry_after_s)
        plan = self._plan = make_plan(
            request,
            request_id=self._request_id,
            deadline_at_s=self._deadline.at_s,
            max_sequences=most_sequences(request, replicas, settings.admission),
            tenant=tenant,
            cache_salt=services.access.cache_salt(tenant),
            hops=add_hop(hops_of(self._scope), services.gateway_id),
        )
        self._answer = Answer(
            RequestContext(
                request,
                plan,
                self._reply,
                services.upstreams,
                self._times,
                settings,
                self._reserved,
            )
        )
        self._chooser = ReplicaChooser(services.router, settings, plan, self._reply)
        return plan

    def _wait_for_slots(self, plan: RequestPlan) -> Slot[Lease]:
        """Step 5: wait in the model's queue until a replica has slots for all its sequences."""
        return self._services.admissions.of(plan.model).slot(plan, self._deadline.left_s())

    async def _choose_replica(self, slot: Slot[Lease], end: AttemptEnd | None) -> Lease | None:
        """Step 6: the lease of the next attempt; None when there is no further attempt.

        `end` is how the last attempt ended, None before the first: that one is at the replica whose
        slots were free. Later it may wait for a replica.
        """
        if end is None:
            return self._begin_first(slot)
        return None if end.problem is None else await self._choose_next(end)

    async def _attempt(self, lease: Lease) -> AttemptEnd:
        """Step 7: one attempt under one lease: begin the answer, or continue it."""
        answer, delivered, replica = self._answer, self._reply.delivered, lease.replica
        continues, num_tokens_before = delivered.has_data, len(delivered.ids)
        began_s, waited_before_s = time.monotonic(), self._reply.waited_s
        async with lease:
            end = await answer.attempt(lease)
            lease.end(end.outcome)
        num_new_tokens = len(delivered.ids) - num_tokens_before
        waited_s = self._reply.waited_s - waited_before_s
        self._history.note(
            end,
            continues=continues,
            num_new_tokens=num_new_tokens,
            waited_for_client=waited_s > (time.monotonic() - began_s) / 2,
        )
        if continues:
            resumed = end.problem is None or lease.has_answered
            self._services.metrics.continuation_ended(
                Continuation.RESUMED if resumed else Continuation.FAILED
            )
        if end.problem is not None:
            self._chooser.note_failure(replica, num_new_tokens)
            self._failure = f"replica {replica.name}: {end.outcome.value}: {end.detail}"
            if await answer.close_if_complete():
                self._log("closed", "answer_was_complete")
                return COMPLETED
        return end

    async def _finish(
        self, end: AttemptEnd | None, request: CheckedRequest, tenant: Tenant | None
    ) -> Outcome:
        """Step 8: send the problem, or offer a complete answer to the capture; the outcome."""
        assert end is not None
        if end.problem is not None:
            await self._reply.problem(end.problem)
        else:
            self._offer_to_capture(request, tenant)
        return end.outcome

    # The choice of replicas

    def _begin_first(self, slot: Slot[Lease]) -> Lease:
        services, now_s = self._services, time.monotonic()
        self._times.sent_upstream(self._plan.cost.num_sequences)
        services.retries.note_request(now_s)
        services.continuations.note_request(now_s)
        assert slot.claim is not None
        return slot.claim

    async def _choose_next(self, end: AttemptEnd) -> Lease | None:
        """The lease that follows a failed attempt; None when the client gets the error."""
        replica = self._chooser.choose()
        step, reason = self._decide(end, has_other_replica=replica is not None)
        if step in (Step.FINISHED, Step.GIVE_UP):
            self._count_lost_stream(reason)
            return None
        if step is Step.WAIT_FOR_REPLICA:
            replica = await self._chooser.wait()
        if replica is None or not self._spend(end.outcome):
            self._count_lost_stream(RetryReason.NO_REPLICA_CAME)
            return None
        return self._services.leases.lease(replica, self._plan.cost)

    def _decide(self, end: AttemptEnd, *, has_other_replica: bool) -> tuple[Step, RetryReason]:
        services, now_s = self._services, time.monotonic()
        has_client_bytes = self._reply.delivered.has_data
        why_not = self._answer.why_not_continued if has_client_bytes else None
        decision = next_step(
            self._history.failure_context(
                end.outcome,
                has_client_bytes=has_client_bytes,
                can_continue=why_not is None,
                waited_s=self._chooser.waited_s,
                has_other_replica=has_other_replica,
                num_retries_left=services.retries.num_left(now_s),
                num_continuations_left=services.continuations.num_left(now_s),
            ),
            services.settings.failures,
        )
        self._log(decision.step.value, decision.reason.value, f" ({why_not})" if why_not else "")
        return decision.step, decision.reason

    def _spend(self, after: Outcome) -> bool:
        """Take the next attempt out of its budget; False when the budget is empty."""
        services, now_s = self._services, time.monotonic()
        if after is Outcome.NOT_SENT:
            return True  # the last attempt cost no engine any work
        if self._reply.delivered.has_data:
            return services.continuations.try_spend(now_s)
        if not self._history.num_attempts:
            return True  # no engine has received the request yet
        if not services.retries.try_spend(now_s):
            return False
        services.metrics.retried(after)
        return True

    # Ends

    def _offer_to_capture(self, request: CheckedRequest, tenant: Tenant | None) -> None:
        """Offer the prompt to the capture, with the answer as far as it was recorded."""
        capture, reply = self._services.capture, self._reply
        if capture is None or not capture.draws(request, tenant):
            return
        delivered = reply.delivered
        is_recorded = delivered.finish_reason is not None and delivered.lost is None
        capture.offer(request, text=delivered.text if is_recorded else None, body=reply.whole_body)

    async def _send(self, problem: Problem) -> None:
        if problem.closes_connection and not self._reply.has_begun:
            await self._reply.problem_before_body(problem, self._receive)
        else:
            await self._reply.problem(problem)

    def _explain(self, overloaded: Overloaded) -> tuple[Outcome, Problem]:
        if overloaded.reason is RefusalReason.NO_REPLICA:
            refusal = self._unready()
            return refusal.outcome, refusal.problem
        return Outcome.OVERLOADED, overloaded.problem

    def _unready(self) -> Refusal:
        services = self._services
        replicas = of_model(services.source.replicas(), self._plan.model)
        return unready(replicas, services.settings.retry_after_s)

    def _count_lost_stream(self, reason: RetryReason) -> None:
        """Count a stream that the client has begun to read and that ends incomplete."""
        if self._reply.delivered.has_data:
            cannot = reason in (RetryReason.NOT_CONTINUABLE, RetryReason.CONTINUATION_REFUSED)
            self._services.metrics.continuation_ended(
                Continuation.NOT_CONTINUABLE if cannot else Continuation.GAVE_UP
            )

    def _log(self, step: str, reason: str, remark: str = "") -> None:
        """One line for each failed attempt: what failed, and what follows."""
        logger.warning(
            "request %s: %s; next: %s, %s%s",
            self._request_id, self._failure, step, reason, remark,
        )  # fmt: skip
