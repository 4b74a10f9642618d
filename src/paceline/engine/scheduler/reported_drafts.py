"""Order drafts that end early, and verify of each request as many as are worth their time.

The order leaves with the scheduler output of a step whose plan has a rule. The report returns with
the draft tokens, before they are scheduled for verification: the policy then chooses a width for
each request, and the confidences of what is verified are kept until the verdicts are known.

A width is chosen after a grammar and the request's cap have shortened a draft, and only shortens it
further. The request was then asked for its width (`RequestLedger`), so a token that was dropped for
its chance does not count as one that the drafter did not offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.request_ledger import RequestLedger
from paceline.engine.worker.draft_orders import ORDER, REPORT, DraftOrder, DraftReport
from paceline.governor.acceptance.confidence_map import Floats
from paceline.governor.values import DraftPlan


class ReportedDrafts:
    """The orders and reports of one scheduler."""

    def __init__(
        self, controller: DraftLengthController, ledger: RequestLedger, *, is_possible: bool
    ) -> None:
        """`is_possible`: all workers can report confidences."""
        self._controller = controller
        self._ledger = ledger
        self.is_possible = is_possible
        """False also after a failure in the workers. Read only."""

    def order(self, output: Any, plan: DraftPlan) -> None:
        """Attach the plan's rule to the step's output, if it has one."""
        request_ids = output.num_scheduled_tokens
        if not self.is_possible or plan.rule is None or plan.draft_length == 0:
            return
        classes = self._ledger.classes_of(request_ids)
        if classes:
            order = DraftOrder(
                rule=plan.rule,
                classes=dict(zip(request_ids, classes, strict=True)),
                caps=self._ledger.capped(request_ids),
            )
            setattr(output, ORDER, order)

    def read(self, draft_token_ids: Any) -> Floats | None:
        """The confidences that came with the drafts, (num_requests, num_passes); None without.

        Raises RuntimeError after a failure in the workers; nothing is ordered from then on.
        """
        report: DraftReport | None = getattr(draft_token_ids, REPORT, None)
        if report is None:
            return None
        if report.failure:
            self.is_possible = False
            raise RuntimeError(report.failure)
        return report.confidences

    def choose_widths(
        self, request_ids: Sequence[str], confidences: Floats | None, requests: Mapping[str, Any]
    ) -> None:
        """Shorten the drafts of these requests to their widths, and keep their confidences.

        `confidences` is what `read` returned. Call it for every step that may have drafted, after
        caps have shortened its drafts.
        """
        self._ledger.drop_confidences(request_ids)
        if confidences is None:
            return
        num_passes = confidences.shape[1]
        widths = dict.fromkeys(request_ids, 0)
        rows = self._rows_with_drafts(request_ids, requests)
        names = [request_ids[row] for row in rows]
        classes = self._ledger.classes_of(names)
        if classes:
            confidences = confidences[rows]
            self._ledger.keep_confidences(names, confidences.tolist())
            limits = [len(requests[name].spec_token_ids) for name in names]
            chosen = self._controller.choose_widths(confidences, classes, limits)
            widths.update(zip(names, chosen or repeat(num_passes)))  # noqa: B905 - no end
            for name in names:
                shorten(requests[name], widths[name])
        self._ledger.narrow(widths)

    def _rows_with_drafts(
        self, request_ids: Sequence[str], requests: Mapping[str, Any]
    ) -> list[int]:
        """Those that take drafts, also where a grammar left none of them."""
        capped = self._ledger.capped(request_ids)
        found = map(requests.get, request_ids)
        return [
            row
            for row, (name, request) in enumerate(zip(request_ids, found, strict=True))
            if request is not None and not request.is_prefill_chunk and capped.get(name) != 0
        ]


def shorten(request: Any, length: int) -> None:
    """Leave at most `length` draft tokens of a request, which may be None for one that ended."""
    if request is not None and len(request.spec_token_ids) > length:
        # A new list, because requests share the list of placeholders.
        request.spec_token_ids = request.spec_token_ids[:length]


def is_ordered(output: Any) -> bool:
    """Return whether the step with this scheduler output has an order."""
    return hasattr(output, ORDER)
