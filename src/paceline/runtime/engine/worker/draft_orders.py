"""What the scheduler and the workers exchange about drafts that end early.

An order travels to the workers as an additional attribute of vLLM's scheduler output, a report
returns as one of the draft tokens. vLLM ignores both, and pickling preserves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.values import DraftRule

ORDER = "paceline_draft_order"
"""On the scheduler output: a `DraftOrder`, in steps that report confidences."""
REPORT = "paceline_draft_report"
"""On the draft tokens of such a step: a `DraftReport`; absent where nothing was drafted."""


@dataclass(frozen=True, slots=True)
class DraftOrder:
    """How one step drafts."""

    rule: DraftRule
    classes: Mapping[str, str]
    """Class of each request of the step, by request id."""
    caps: Mapping[str, int]
    """The most draft tokens of requests that limit them, by request id."""


@dataclass(frozen=True, slots=True)
class DraftReport:
    """What the workers observed while they drafted."""

    confidences: Floats | None
    """Largest probability of the distribution that each token was drawn from, shape (num_requests,
    num_passes), in the order of the draft tokens. None after a failure."""
    failure: str = ""
    """Why there are no confidences; the draft tokens are those of an ordinary step then."""
