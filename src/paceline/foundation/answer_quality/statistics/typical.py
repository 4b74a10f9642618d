"""Centre of a paired quantity over conversations, with the exact interval of signed ranks.

The ratio of two positive quantities is taken as the difference of their logarithms: divergences
differ by orders of magnitude between conversations, and ratios do not. Assumes that conversations
are independent and that the differences are symmetric about their centre
(`results.signed_rank`). A change that touches fewer than half of the conversations hardly moves the
centre; `extreme` is for those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paceline.foundation.answer_quality.values import Floats, Interval
from paceline.foundation.results.signed_rank import hodges_lehmann, signed_rank_interval


def typical_difference(differences: Sequence[float], error: float) -> Interval:
    """The centre; each bound misses it with a probability of at most `error`.

    >>> typical_difference([1.0, 2.0, 3.0, 4.0, 5.0], error=0.05)
    Interval(value=3.0, low=1.0, high=5.0)
    """
    bounds = signed_rank_interval(differences, 2 * error)
    low, high = bounds if bounds is not None else (None, None)
    return Interval(hodges_lehmann(differences), low, high)


def typical_ratio(above: Floats, below: Floats, error: float, floor: float) -> Interval:
    """The centre of `above / below`, both (num_conversations,) and at least 0.

    `floor` is added to both: smaller values are rounding noise.
    """
    logs = np.log((above + floor) / (below + floor))
    found = typical_difference(logs.tolist(), error)
    low, high = (None if one is None else math.exp(one) for one in (found.low, found.high))
    return Interval(math.exp(found.value), low, high)
