"""`RequestPlan`: what decides where and when a checked request runs.

Made once, after the checks. Admission, routing, leases and the fields for the engine read it, and
none of them reads the body for it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.replicas import Replica, of_model, queue_of
from paceline.runtime.gateway.requests.needs import Needs
from paceline.runtime.gateway.requests.validation import CheckedRequest

_DEFAULT_OUTPUT_TOKENS = 256
"""Expected length of an answer whose request sets no limit. Chosen empirically."""
_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What a request takes of a replica while it runs there; also a sum over requests."""

    num_sequences: int = 1
    """Answers that the engine computes at the same time: prompts times `n`."""
    num_prompt_tokens: int = 0
    """Of all prompts, estimated from their length where they are text."""
    num_output_tokens: int = 0
    """Expected over all sequences."""

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_output_tokens

    def __add__(self, other: RequestCost) -> RequestCost:
        return RequestCost(
            self.num_sequences + other.num_sequences,
            self.num_prompt_tokens + other.num_prompt_tokens,
            self.num_output_tokens + other.num_output_tokens,
        )

    def __sub__(self, other: RequestCost) -> RequestCost:
        return RequestCost(
            self.num_sequences - other.num_sequences,
            self.num_prompt_tokens - other.num_prompt_tokens,
            self.num_output_tokens - other.num_output_tokens,
        )

    def at_most(self, num_sequences: int) -> RequestCost:
        """The same request at a replica that computes at most this many sequences at a time."""
        if self.num_sequences <= num_sequences:
            return self
        return replace(self, num_sequences=num_sequences)


NO_COST = RequestCost(0)
ONE_SEQUENCE = RequestCost(1)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One request, as far as its execution is concerned."""

    request_id: str
    model: str
    """The id that the client named."""
    needs: Needs
    """What a replica must be able to do."""
    cost: RequestCost
    deadline_at_s: float
    """By the running loop's clock; the answer must be complete then."""
    queue: str = ""
    """The model in whose queue it waits; empty for `model`."""
    tenant: str | None = None
    """None when keys are off."""
    cache_salt: str | None = None
    """Separates the tenant in the engines' prefix caches; None when keys are off."""
    session: str | None = None
    """Requests with the same value probably share a prefix: the client's `prompt_cache_key`."""
    hops: str = ""
    """The gateways that the request has passed, with this one; see `gateway.hops`."""


def make_plan(
    request: CheckedRequest,
    *,
    request_id: str,
    deadline_at_s: float,
    max_sequences: int,
    tenant: Tenant | None = None,
    cache_salt: str | None = None,
    hops: str = "",
    replicas: Sequence[Replica] = (),
) -> RequestPlan:
    """The plan of this request. Its cost counts at most `max_sequences`, those that the largest
    replica computes at a time. `replicas` are those of the gateway."""
    session = request.parsed.get("prompt_cache_key")
    queue, needs = request.model, request.needs
    if of_model(replicas, request.model):
        queue = queue_of(replicas, request.model)
        if not all(replica.serves(request.model) for replica in of_model(replicas, queue)):
            needs = replace(needs, model=request.model)
    return RequestPlan(
        request_id=request_id,
        model=request.model,
        queue=queue,
        needs=needs,
        cost=cost_of(request).at_most(max_sequences),
        deadline_at_s=deadline_at_s,
        tenant=None if tenant is None else tenant.name,
        cache_salt=cache_salt,
        session=session if isinstance(session, str) and session else None,
        hops=hops,
    )


def cost_of(request: CheckedRequest) -> RequestCost:
    """The cost of this request."""
    num_output = 0
    if request.route.generates:
        limits = (request.parsed.get(name) for name in _LIMIT_FIELDS)
        limit = next((limit for limit in limits if isinstance(limit, int)), None)
        expected = _DEFAULT_OUTPUT_TOKENS if limit is None else min(limit, _DEFAULT_OUTPUT_TOKENS)
        num_output = expected * request.num_choices
    return RequestCost(request.num_choices, request.num_prompt_tokens, num_output)
