"""The three tiers of the gate and its verdict, from figures alone.

For other rooms: `judge_fidelity`, `pair_outcomes`, `judge_outcomes`, `decide` and their values.
"""

from paceline.foundation.answer_quality.decisions.fidelity import Fidelity, judge_fidelity
from paceline.foundation.answer_quality.decisions.limits import Limits
from paceline.foundation.answer_quality.decisions.outcomes import (
    OutcomeFigures,
    judge_outcomes,
    pair_outcomes,
)
from paceline.foundation.answer_quality.decisions.verdict import (
    EXIT_CODES,
    Decision,
    Verdict,
    decide,
)

__all__ = [
    "EXIT_CODES",
    "Decision",
    "Fidelity",
    "Limits",
    "OutcomeFigures",
    "Verdict",
    "decide",
    "judge_fidelity",
    "judge_outcomes",
    "pair_outcomes",
]
