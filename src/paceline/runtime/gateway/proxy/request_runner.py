"""`RequestRunner`: one request to an engine's route, from its headers to its one outcome.

It owns the choice of replicas, the lease of each attempt, retries, continuation and the end. Its
`_serve` has one call for each of the eight steps in docs/architecture.md, "One request".
"""

from __future__ import annotations

import asyncio
import logging
import time

from paceline.runtime.gateway.admission import Overloaded, RefusalReason
from paceline.runtime.gateway.admission.queue import Slot
from paceline.runtime.gateway.hops import add_hop, hops_of
from paceline.runtime.gateway.http.asgi import Receive, Scope
from paceline.runtime.gateway.http.body import (
    Body,
    ClientGone,
    announced_bytes,
    check_headers,
    read_body,
)
from paceline.runtime.gateway.http.client_watch import ClientWatch
from paceline.runtime.gateway.http.errors import INTERNAL, STOPPING, Problem, Refusal
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.metrics.request_times import RequestTimes
from paceline.runtime.gateway.outcomes import Continuation, Outcome
from paceline.runtime.gateway.proxy.answer import Answer
from paceline.runtime.gateway.proxy.attempt import RequestContext
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED, AttemptEnd, failed_here
from paceline.runtime.gateway.proxy.attempt_history import AttemptHistory
from paceline.runtime.gateway.proxy.failure_policy import (
    LAST_STEPS,
    Decision,
    FailureContext,
    RetryReason,
    Step,
    next_step,
)
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.replica_chooser import ReplicaChooser
from paceline.runtime.gateway.proxy.replica_deaths import ReplicaDeaths
from paceline.runtime.gateway.proxy.request_verdicts import RequestVerdicts
from paceline.runtime.gateway.proxy.retry_budget import Charge
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.replicas import Replica, of_model
from paceline.runtime.gateway.requests.deadline import Deadline, deadline_of
from paceline.runtime.gateway.requests.plan import RequestPlan, make_plan
from paceline.runtime.gateway.requests.routes import Route
from paceline.runtime.gateway.requests.served import check_served, most_sequences, unready
from paceline.runtime.gateway.requests.validation import CheckedRequest, check_request

logger = logging.getLogger(__name__)


class RequestRunner:
    """Runs one request; use it once."""

    __slots__ = (
        "_answer", "_chooser", "_deadline", "_deaths", "_failure", "_history", "_is_refused",
        "_outcome", "_plan", "_receive", "_reply", "_request_id", "_reserved", "_route", "_scope",
        "_services", "_times", "_verdicts",
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
        self._verdicts = RequestVerdicts(services.opinions)
        self._deaths = ReplicaDeaths(services)
        self._is_refused = False
        """The client gets the refusal of an earlier attempt."""
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
            self._verdicts.close(is_served=False)
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
            replicas=replicas,
        )
        self._verdicts.tenant = plan.tenant
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
        return self._services.admissions.of(plan.queue).slot(plan, self._deadline.left_s())

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
        async with lease:
            lease.on_answer(self._verdicts.another_answers)
            end = await self._exchange(lease)
            if end.problem is not None:
                end = await self._deaths.note_failed(lease, end)
            lease.end(end.outcome, awaits_verdict=end.suspicion is not None)
        self._verdicts.ended(lease.ticket, end, had_begun=continues or lease.has_answered)
        self._history.note(end, continues=continues)
        if continues:
            resumed = end.problem is None or lease.has_answered
            self._services.metrics.continuation_ended(
                Continuation.RESUMED if resumed else Continuation.FAILED
            )
        if end.problem is not None:
            self._chooser.note_failure(
                replica,
                has_added_tokens=len(delivered.ids) > num_tokens_before,
                is_rejection=end.is_rejection,
            )
            self._failure = f"replica {replica.name}: {end.outcome.value}: {end.detail}"
            if await answer.close_if_complete():
                self._log("closed", "answer_was_complete")
                return COMPLETED
        return end

    async def _exchange(self, lease: Lease) -> AttemptEnd:
        """The attempt itself. A fault of the gateway may be caused by what the replica sent, so it
        ends the attempt like one of the replica."""
        is_opinion = self._history.refusal is not None and not self._reply.delivered.has_data
        try:
            return await self._answer.attempt(lease, is_opinion=is_opinion)
        except (ClientGone, Refusal):
            raise
        except Exception:
            logger.exception("request %s: fault in the gateway", self._request_id)
            return failed_here()

    async def _finish(
        self, end: AttemptEnd | None, request: CheckedRequest, tenant: Tenant | None
    ) -> Outcome:
        """Step 8: send the problem, or offer a complete answer to the capture; the outcome."""
        if self._is_refused:
            end = self._history.refusal
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
        charge = Charge(end.may_be_own_fault, self._plan.tenant)
        replica, decision = self._decide(end, charge)
        if decision.step not in LAST_STEPS and await self._deaths.look_back():
            replica, decision = self._decide(end, charge)
        step, reason = decision.step, decision.reason
        why_not = self._why_not_continued
        self._log(step.value, reason.value, f" ({why_not})" if why_not else "")
        self._is_refused = step is Step.REFUSE
        if step in LAST_STEPS:
            self._count_lost_stream(reason)
            return None
        if step is Step.WAIT_FOR_REPLICA:
            replica = await self._chooser.wait()
        if replica is None or not self._spend(end.outcome, charge):
            self._count_lost_stream(RetryReason.NO_REPLICA_CAME)
            return None
        return self._services.leases.lease(replica, self._plan.cost)

    @property
    def _why_not_continued(self) -> str | None:
        """Why a stream that the client has begun to read cannot be continued."""
        return self._answer.why_not_continued if self._reply.delivered.has_data else None

    def _decide(self, end: AttemptEnd, charge: Charge) -> tuple[Replica | None, Decision]:
        """The next step, and the replica that has not failed the request; None without one."""
        services, now_s = self._services, time.monotonic()
        replica = self._chooser.choose()
        decision = next_step(
            FailureContext(
                end=end,
                history=self._history,
                has_client_bytes=self._reply.delivered.has_data,
                can_continue=self._why_not_continued is None,
                num_deaths=self._deaths.num,
                wants_opinion=self._verdicts.wants_opinion,
                waited_s=self._chooser.waited_s,
                has_other_replica=replica is not None,
                has_failed_replica=self._chooser.choose_failed() is not None,
                num_retries_left=services.retries.num_left(now_s, charge),
                num_continuations_left=services.continuations.num_left(now_s, charge),
            ),
            services.settings.failures,
        )
        return replica, decision

    def _spend(self, after: Outcome, charge: Charge) -> bool:
        """Take the next attempt out of its budget; False when the budget is empty."""
        services, now_s = self._services, time.monotonic()
        if after is Outcome.NOT_SENT:
            return True  # the last attempt cost no engine any work
        if self._reply.delivered.has_data:
            return services.continuations.try_spend(now_s, charge)
        if not self._history.num_attempts:
            return True  # no engine has received the request yet
        if not services.retries.try_spend(now_s, charge):
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
