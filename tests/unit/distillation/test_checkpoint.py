"""A checkpoint is replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paceline.foundation.distillation.checkpoint import load_state, save_state


def test_a_saved_state_is_read_back(tmp_path: Path) -> None:
    save_state(tmp_path / "state.pt", {"step": 3, "model": {"w": torch.tensor([1.5])}})
    state = load_state(tmp_path / "state.pt")
    assert state["step"] == 3
    assert state["model"]["w"].tolist() == [1.5]


def test_a_failed_save_leaves_the_old_state_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.pt"
    save_state(path, {"step": 3})

    def fail(state: object, file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        save_state(path, {"step": 4})
    assert load_state(path)["step"] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.pt"]
