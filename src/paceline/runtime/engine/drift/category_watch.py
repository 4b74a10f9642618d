"""Watch the acceptance of one category of requests.

The first `FIRST_REFERENCE` requests are the reference: their mean acceptance, how much requests
differ, and the acceptance by draft position. Further requests go to a `ShiftDetector`. While it
sees no shift they are added to the reference, which is settled anew at every doubling up to
`FULL_REFERENCE`: the error of a small one is what most false flags come from. After a flag the
requests that follow are the next reference.

A request is one value, however long it is: its verdicts come in runs and are no independent draws.
Requests with few verdicts are joined with the next of the category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, variance

from paceline.runtime.engine.drift.shift_detector import ShiftDetector, long_run_variance
from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums

FIRST_REFERENCE = 400
"""Requests of the first reference: an error of 0.01 where requests differ by 0.2."""
FULL_REFERENCE = 1600
"""Requests of the last one: an error of 0.005."""
_QUIET_EVIDENCE = 0.001
"""Below it nothing points to a shift, and the reference may take in the requests since."""
LEAST_VERDICTS = 8
"""Verdicts of a value. With fewer, the edges of a text count for too much. Chosen empirically."""
_RECENT_KEEP = 0.98
"""Weight kept per request in the recent acceptance; for display only."""


@dataclass(frozen=True, slots=True)
class AcceptanceLevel:
    """The acceptance of a category over some requests."""

    mean: float
    variance: float
    """Long-run variance of a request's acceptance."""
    num_requests: int
    hazards: tuple[float, ...]
    """By draft position the fraction accepted of those tried, up to the deepest tried."""

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return math.sqrt(self.variance / self.num_requests)


@dataclass(frozen=True, slots=True)
class AcceptanceShift:
    """A flagged shift: the reference, and the requests since the likeliest time of the change.

    The second mean exaggerates a little: it is read when the evidence is complete.
    """

    before: AcceptanceLevel
    now: AcceptanceLevel


class CategoryWatch:
    """The acceptance of one category."""

    def __init__(self) -> None:
        self.num_requests = 0
        """Values since the start; short requests are joined."""
        self.num_shifts = 0
        self.completed: AcceptanceSums | None = None
        """The value that the last request completed; None while it is to be joined with others."""
        self.recent: float | None = None
        """Acceptance of about the last 50 requests."""
        self._joined = AcceptanceSums()
        self._reference: AcceptanceLevel | None = None
        self._learn_anew()

    @property
    def reference(self) -> AcceptanceLevel | None:
        """None while it is learned."""
        return self._reference

    @property
    def evidence(self) -> float | None:
        """Evidence of a shift, flagged at 1; None while the reference is learned."""
        return None if self._detector is None else self._detector.evidence

    def add(self, request: AcceptanceSums) -> AcceptanceShift | None:
        """Add a request that has ended; return the shift that it completes, if any."""
        self._joined.add(request)
        self.completed = None
        if self._joined.num_verdicts < LEAST_VERDICTS:
            return None
        value, self._joined = self._joined, AcceptanceSums()
        self.completed = value
        self.num_requests += 1
        before = value.acceptance if self.recent is None else self.recent
        self.recent = _RECENT_KEEP * before + (1.0 - _RECENT_KEEP) * value.acceptance
        if self._detector is None:
            self._learn(value)
            return None
        return self._watch(value, self._detector)

    def _learn_anew(self) -> None:
        self._learned: list[float] = []
        self._learned_sums = AcceptanceSums()
        self._settles_at = FIRST_REFERENCE
        self._reference = None
        self._detector: ShiftDetector | None = None
        self._since_rise, self._since_fall = _Since(), _Since()

    def _learn(self, value: AcceptanceSums) -> None:
        if self._settles_at > FULL_REFERENCE:
            return
        self._learned.append(value.acceptance)
        self._learned_sums.add(value)
        if len(self._learned) >= self._settles_at and (self.evidence or 0.0) < _QUIET_EVIDENCE:
            self._settle()

    def _settle(self) -> None:
        mean, spread = fmean(self._learned), long_run_variance(self._learned)
        num_requests = len(self._learned)
        self._reference = AcceptanceLevel(mean, spread, num_requests, self._learned_sums.hazards())
        self._detector = ShiftDetector(
            mean, spread, num_requests, excess_variance=spread - variance(self._learned)
        )
        self._since_rise, self._since_fall = _Since(), _Since()
        self._settles_at *= 2
        if self._settles_at > FULL_REFERENCE:
            self._learned = []

    def _watch(self, value: AcceptanceSums, detector: ShiftDetector) -> AcceptanceShift | None:
        assert self._reference is not None
        detector.add(value.acceptance)
        if detector.num_since_change(rises=True):
            self._since_rise.add(value)
        else:
            self._since_rise = _Since()
        if detector.num_since_change(rises=False):
            self._since_fall.add(value)
        else:
            self._since_fall = _Since()
        if detector.evidence < 1.0:
            self._learn(value)
            return None
        since = self._since_rise if detector.rises else self._since_fall
        shift = AcceptanceShift(self._reference, since.level(self._reference.variance))
        self.num_shifts += 1
        self._learn_anew()
        return shift


class _Since:
    """The requests since the likeliest time of a change."""

    def __init__(self) -> None:
        self._total = 0.0
        self._num_requests = 0
        self._sums = AcceptanceSums()

    def add(self, value: AcceptanceSums) -> None:
        self._total += value.acceptance
        self._num_requests += 1
        self._sums.add(value)

    def level(self, variance: float) -> AcceptanceLevel:
        """These requests, with the variance of the reference: they are too few for their own."""
        mean = self._total / self._num_requests
        return AcceptanceLevel(mean, variance, self._num_requests, self._sums.hazards())
