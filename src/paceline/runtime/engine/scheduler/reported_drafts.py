"""Order drafts that end early, and verify of each request as many as are worth their time.

The order leaves with the scheduler output of a step whose plan has a rule. The report returns with
the draft tokens, before they are scheduled for verification: the policy then chooses a width for
each request.

A width is chosen after a grammar and the request's cap have shortened a draft, and only shortens it
further. The request was then asked for its width (`RequestLedger`), so a token that was dropped for
its chance does not count as one that the drafter did not offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.engine.worker.draft_orders import ORDER, DraftOrder
from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.values import DraftPlan


def order_drafts(output: Any, plan: DraftPlan, ledger: RequestLedger) -> None:
    """Attach the plan's rule to the step's output, if it has one. The workers must report."""
    if plan.rule is None or plan.draft_length == 0:
        return
    request_ids = output.num_scheduled_tokens
    classes = ledger.classes_of(request_ids)
    if classes:
        order = DraftOrder(
            rule=plan.rule,
            classes=dict(zip(request_ids, classes, strict=True)),
            caps=ledger.capped(request_ids),
        )
        setattr(output, ORDER, order)


def choose_widths(
    controller: DraftLengthController,
    ledger: RequestLedger,
    request_ids: Sequence[str],
    confidences: Floats,
    requests: Mapping[str, Any],
) -> dict[str, Sequence[float]]:
    """Shorten the drafts of these requests to their widths, and note these in the ledger.

    `confidences` has shape (num_requests, num_passes). Caps must have shortened the drafts before.
    Returns the confidences of each request that takes drafts, also where a grammar left none.
    """
    num_passes = confidences.shape[1]
    widths = dict.fromkeys(filter(requests.__contains__, request_ids), 0)
    capped = ledger.capped(request_ids)
    rows = [
        row
        for row, name in enumerate(request_ids)
        if name in requests and not requests[name].is_prefill_chunk and capped.get(name) != 0
    ]
    names = [request_ids[row] for row in rows]
    classes = ledger.classes_of(names)
    if classes:
        confidences = confidences[rows]
        limits = [len(requests[name].spec_token_ids) for name in names]
        chosen = controller.choose_widths(confidences, classes, limits)
        widths.update(zip(names, chosen or repeat(num_passes)))  # noqa: B905 - no end
        for name in names:
            shorten(requests[name], widths[name])
    ledger.narrow(widths)
    return dict(zip(names, confidences.tolist(), strict=True)) if classes else {}


def shorten(request: Any, length: int) -> None:
    """Leave at most `length` draft tokens of a request, which may be None for one that ended."""
    if request is not None and len(request.spec_token_ids) > length:
        # A new list, because requests share the list of placeholders.
        request.spec_token_ids = request.spec_token_ids[:length]
