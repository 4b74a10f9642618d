"""Refuse a checked request that no replica can serve now, before it waits in a queue."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.runtime.gateway.http.errors import Refusal, invalid, model_not_found, unavailable
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.replicas import (
    Replica,
    explain_unready,
    longest_context,
    model_ids,
    num_slots_of,
    of_model,
)
from paceline.runtime.gateway.requests.capabilities import can_serve, explain_unserved
from paceline.runtime.gateway.requests.validation import CheckedRequest, check_context
from paceline.runtime.gateway.settings import AdmissionSettings


def check_served(request: CheckedRequest, replicas: Sequence[Replica], retry_after_s: int) -> None:
    """Raise `Refusal` unless one of all `replicas` could take the request now.

    404 for a model that is not served, 400 for a prompt that is too long for every replica of the
    model and for a need that none has, 503 when those that could take it are not ready.
    """
    of_its_model = of_model(replicas, request.model)
    if not of_its_model:
        if any(not replica.model for replica in replicas):
            reason = "A replica has not reported its model yet; it may be this one."
            raise Refusal(unavailable(reason, retry_after_s), Outcome.UNAVAILABLE)
        raise model_not_found(request.model, model_ids(replicas))
    check_context(request, longest_context(of_its_model, request.model))
    able = [replica for replica in of_its_model if can_serve(replica, request.needs)]
    if not able:
        raise Refusal(explain_unserved(request.needs))
    if not any(replica.state == "ready" for replica in able):
        raise unready(of_its_model, retry_after_s)


def most_sequences(
    request: CheckedRequest, replicas: Sequence[Replica], settings: AdmissionSettings
) -> int:
    """Sequences that the largest of the replicas that can serve the request takes at a time.

    Raises `Refusal` (400) if the request needs more to generate its answers. Other requests, which
    hold their slots for a short time, get all slots of a replica instead.
    """
    able = [r for r in of_model(replicas, request.model) if can_serve(r, request.needs)]
    most = max(num_slots_of(replica, settings) for replica in able)
    if request.num_choices > most and request.route.generates:
        param = "n" if request.num_prompts == 1 else request.route.prompt_param
        raise invalid(
            f"The request asks for {request.num_choices} answers (prompts times n); a replica of "
            f"this model computes at most {most} at a time. Send fewer in one request, or have the "
            "operator raise admission.max_in_flight.",
            param,
        )
    return most


def unready(replicas: Sequence[Replica], retry_after_s: int) -> Refusal:
    """The 503 when none of a model's `replicas` is ready."""
    problem = unavailable(explain_unready(replicas), retry_after_s)
    return Refusal(problem, Outcome.UNAVAILABLE)
