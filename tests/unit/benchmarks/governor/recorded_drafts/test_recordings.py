"""The file of recorded drafts: nothing that matters is lost, and the committed one is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.governor.recorded_drafts.recordings import (
    KINDS,
    MAX_DRAFT_TOKENS,
    RECORDED,
    pack,
    read_recordings,
    write_recordings,
)


def test_a_written_file_keeps_verdicts_and_confidences_near_one(tmp_path: Path) -> None:
    """0.9999 would be 1.0 in half precision."""
    probs = np.array([0.02, 0.3, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
    texts = [(0, [0, 8, 3], np.tile(probs, (3, 1))), (3, [5], probs[None, ::-1])]
    write_recordings(tmp_path / "drafts.npz", pack(texts))
    found = read_recordings(tmp_path / "drafts.npz")
    assert found.num_accepted.tolist() == [[0, 8, 3], [5, 0, 0]]
    assert found.kinds.tolist() == [0, 3]
    back = 1 / (1 + np.exp(-found.top_logits[1, 0, ::-1]))
    assert (1 - back).tolist() == pytest.approx((1 - probs).tolist(), rel=0.004)


def test_every_kind_has_texts_for_evaluation_and_others_for_fitting() -> None:
    recordings = read_recordings()
    for kind in KINDS:
        evaluated = set(recordings.evaluated_texts(kind.name).tolist())
        fitting = set(recordings.fitting_texts(kind.name).tolist())
        assert len(evaluated) == len(fitting) == 32
        assert not evaluated & fitting
    assert recordings.num_accepted.max() == MAX_DRAFT_TOKENS
    assert RECORDED.stat().st_size < 2e6


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of predictable"):
        read_recordings().evaluated_texts("poetry")
