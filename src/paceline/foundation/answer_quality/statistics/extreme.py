"""Whether a candidate's largest values exceed those of its reference: an exact sign test.

Of n conversations, take the k whose larger value of (candidate, reference) is largest. If the two
are exchangeable within each conversation, a fair coin decides which is larger, in each of the k
independently, because the choice of the k does not depend on which is which. So all k are the
candidate's with probability 2^-k. This finds a change that leaves most conversations as they are
and is severe in at least k of them.
"""

from __future__ import annotations

import math

import numpy as np

from paceline.foundation.answer_quality.values import Floats


def num_extremes(error: float) -> int:
    """The k for which all k conversations are the candidate's with a probability <= `error`.

    >>> num_extremes(0.01)
    7
    """
    return math.ceil(-math.log2(error))


def exceeds_in_extremes(candidate: Floats, reference: Floats, error: float) -> bool:
    """Whether the candidate's value is larger in each of the k most extreme conversations.

    Both are (num_conversations,). False with fewer than k conversations.
    """
    k = num_extremes(error)
    if len(candidate) < k:
        return False
    most = np.argsort(-np.maximum(candidate, reference), kind="stable")[:k]
    return bool((candidate[most] > reference[most]).all())
