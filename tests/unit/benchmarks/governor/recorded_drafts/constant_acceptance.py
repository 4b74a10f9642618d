"""Recordings in which every draft has the same number of accepted tokens."""

from __future__ import annotations

import numpy as np

from benchmarks.governor.recorded_drafts.recordings import (
    KINDS,
    MAX_DRAFT_TOKENS,
    Recordings,
    pack,
)


def accepting(num_accepted: int, *, num_positions: int = 60) -> Recordings:
    """Four texts of each kind; every draft has `num_accepted` tokens accepted."""
    accepted = np.full(num_positions, num_accepted)
    top_probs = np.full((num_positions, MAX_DRAFT_TOKENS), 0.5)
    return pack([(kind, accepted, top_probs) for kind in range(len(KINDS)) for _ in range(4)])
