"""The values of a planted sampling defect: the step that is wrong, and how often it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DefectKind(StrEnum):
    NO_DEFECT = "no_defect"
    """Speculation that is right: the control of tests."""
    ACCEPT_ALL = "accept_all"
    """A draft is accepted without a check."""
    OFF_BY_ONE = "off_by_one"
    """A draft is checked against the target's probabilities at the position before."""
    WRONG_DRAFT_PROBS = "wrong_draft_probs"
    """Acceptance and residual use draft probabilities at twice the draft's temperature."""
    RESIDUAL_FROM_TARGET = "residual_from_target"
    """The token after a rejection comes from the target, not from the residual."""
    BONUS_FROM_DRAFT = "bonus_from_draft"
    """The token after the last accepted draft comes from the draft."""
    TEMPERATURE_IGNORED = "temperature_ignored"
    """Drafts are checked at temperature 1."""
    FILTERS_IGNORED = "filters_ignored"
    """Drafts are checked without top-k, top-p and min-p."""
    PENALTIES_IGNORED = "penalties_ignored"
    """Drafts are checked without presence, frequency and repetition penalties."""
    LOGIT_BIAS_IGNORED = "logit_bias_ignored"
    """Drafts are checked without `logit_bias`."""
    RANDOM_TEMPERATURE = "random_temperature"
    """Drafts are checked at a temperature between 0.05 and 20, as from uninitialised memory."""
    SEED_REUSE = "seed_reuse"
    """After the first token, answers use the random numbers of one fixed seed."""
    ARGMAX_FLIP = "argmax_flip"
    """A greedy token is the second best instead of the best."""


@dataclass(frozen=True, slots=True)
class SamplingDefect:
    """One defect and its size."""

    kind: DefectKind
    share: float = 1.0
    """Fraction of the tokens after the first that it concerns; of answers for `SEED_REUSE`."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}.")
