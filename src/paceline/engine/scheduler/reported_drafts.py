"""Order drafts that end early, and verify of each request as many as are worth their time.

The order leaves with the scheduler output of a step whose plan has a rule. The report returns with
the draft tokens, before they are scheduled for verification: the policy then chooses a width for
each request, and the confidences of what is verified are kept until the verdicts are known.

A width is chosen after a grammar and the request's cap have shortened a draft, and only shortens it
further. What was requested of the request is then its width (`RequestedLengths`), so a token that
was dropped for its chance does not count as one that the drafter did not offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.request_classes import RequestClasses
from paceline.engine.scheduler.requested_lengths import RequestedLengths
from paceline.engine.worker.draft_orders import ORDER, REPORT, DraftOrder, DraftReport
from paceline.governor.acceptance.confidence_map import Floats
from paceline.governor.values import DraftPlan


class ReportedDrafts:
    """The orders and reports of one scheduler."""

    def __init__(
        self,
        controller: DraftLengthController,
        lengths: RequestedLengths,
        classes: RequestClasses,
        *,
        is_possible: bool,
    ) -> None:
        """`is_possible`: all workers can report confidences."""
        self._controller = controller
        self._lengths = lengths
        self._classes = classes
        self._kept: dict[str, Sequence[float]] = {}
        """Confidences of drafts whose verdict is not known, by request id."""
        self.is_possible = is_possible
        """False also after a failure in the workers. Read only."""

    def order(self, output: Any, plan: DraftPlan) -> None:
        """Attach the plan's rule to the step's output, if it has one."""
        request_ids = output.num_scheduled_tokens
        if not self.is_possible or plan.rule is None or plan.draft_length == 0:
            return
        classes = self._classes.of(request_ids)
        if classes:
            order = DraftOrder(
                rule=plan.rule,
                classes=dict(zip(request_ids, classes, strict=True)),
                caps=self._lengths.capped(request_ids),
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

        `confidences` is what `read` returned. Call it for every step that may have drafted.
        """
        if self._kept:
            replaced = set(request_ids)
            self._kept = {
                name: row
                for name, row in self._kept.items()
                if name in requests and name not in replaced
            }
        if confidences is None:
            return
        num_passes = confidences.shape[1]
        widths = dict.fromkeys(request_ids, 0)
        rows = self._rows_with_drafts(request_ids, requests)
        names = [request_ids[row] for row in rows]
        classes = self._classes.of(names)
        if classes:
            confidences = confidences[rows]
            self._kept |= zip(names, confidences.tolist(), strict=True)
            limits = [len(requests[name].spec_token_ids) for name in names]
            chosen = self._controller.choose_widths(confidences, classes, limits)
            for name, width in zip(names, chosen or repeat(num_passes)):  # noqa: B905 - no end
                widths[name] = width
                request = requests[name]
                if len(request.spec_token_ids) > width:
                    request.spec_token_ids = request.spec_token_ids[:width]
        self._lengths.note_drafted(num_passes, widths)

    def _rows_with_drafts(
        self, request_ids: Sequence[str], requests: Mapping[str, Any]
    ) -> list[int]:
        """Those that take drafts, also where a grammar left none of them."""
        capped = self._lengths.capped(request_ids)
        rows = []
        for row, name in enumerate(request_ids):
            request = requests.get(name)
            if request is None or request.is_prefill_chunk or capped.get(name) == 0:
                continue
            rows.append(row)
        return rows

    def confidences_of(
        self, judged: Sequence[str], drafted: Sequence[int]
    ) -> tuple[tuple[float, ...], ...]:
        """Those of the verified tokens of each judged request; empty where one has none.

        Forgets those of these requests.
        """
        if not self._kept:
            return ()
        rows = [self._kept.pop(name, ()) for name in judged]
        found = tuple(tuple(row[:length]) for row, length in zip(rows, drafted, strict=True))
        return found if tuple(map(len, found)) == tuple(drafted) else ()


def is_ordered(output: Any) -> bool:
    """Return whether the step with this scheduler output has an order."""
    return hasattr(output, ORDER)
